// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package registry

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Files holds the descriptors of the contract's .proto files; what they import is looked up in
// protoregistry.GlobalFiles. It is filled while the generated packages are initialised and only read afterwards, so it
// is safe for concurrent use.
var Files = &FileRegistry{own: new(protoregistry.Files)}

// Types holds the message types of the contract. It is filled and safe in the way that Files is.
var Types = new(protoregistry.Types)

// FileRegistry is a registry of our own files with the global one behind it. Its zero value is not usable: the one
// there is is Files.
type FileRegistry struct {
	own *protoregistry.Files
}

// RegisterFile adds a file to our own registry and leaves the global one as it is. It returns an error when one of the
// file's names is already there. It is called by generated code only.
func (r *FileRegistry) RegisterFile(file protoreflect.FileDescriptor) error {
	return r.own.RegisterFile(file)
}

// FindFileByPath returns the file of that path, our own or an imported one, or protoregistry.NotFound.
func (r *FileRegistry) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if file, err := r.own.FindFileByPath(path); err == nil {
		return file, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName returns the descriptor of that full name, our own or an imported one, or
// protoregistry.NotFound.
func (r *FileRegistry) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if descriptor, err := r.own.FindDescriptorByName(name); err == nil {
		return descriptor, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
