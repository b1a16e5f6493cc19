// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// draft is a file that is written whole or not at all: what stood under its name stays until the new one is complete. What is
// no regular file, such as a pipe, is written to as it is.
type draft struct {
	path string
	file *os.File // the one that is written; nil once it is kept or dropped
}

// beginDraft fails at once where the file cannot be written.
func beginDraft(path string) (*draft, error) {
	mode := fs.FileMode(0o644)
	switch there, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case there.Mode().IsRegular():
		mode = there.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	default:
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &draft{path: path, file: file}, nil
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d := &draft{path: path, file: file}
	if err := file.Chmod(mode); err != nil {
		d.drop()
		return nil, err
	}
	return d, nil
}

// keep writes the file. It is in its place when keep returns nil.
func (d *draft) keep(write func(io.Writer) error) error {
	if err := write(d.file); err != nil {
		return err
	}
	file := d.file
	d.file = nil
	err := file.Close()
	if file.Name() == d.path {
		return err
	}
	if err == nil {
		err = os.Rename(file.Name(), d.path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// drop leaves nothing of a file that was not kept.
func (d *draft) drop() {
	if d.file == nil {
		return
	}
	_ = d.file.Close() // nobody reads it
	if d.file.Name() != d.path {
		_ = os.Remove(d.file.Name())
	}
	d.file = nil
}
