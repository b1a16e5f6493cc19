// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certfile

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookInterval is how often the files are looked at, at most.
	lookInterval = time.Second
	// settled is how long ago a file must have been written for its time to tell it from a later one: file systems count
	// time in steps, of up to two seconds.
	settled = 2 * time.Second
	// maxFile bounds what is read of a file.
	maxFile = 4 << 20
)

// Secret is a password that does not show itself; connstring.Secret is one.
type Secret interface{ Reveal() string }

// Config says which files are read. Load copies it.
type Config struct {
	// Cert is the file with the certificate; required.
	Cert string
	// Key is the file with the private key, in PEM form, as Cert is then; empty means that it is in Cert.
	Key string
	// PEM takes files in PEM form alone, for who has no password to give.
	PEM bool
	// Password opens a PKCS#12 file; nil means none. It is not used for PEM.
	Password Secret
	// Changed is told of what became of files that have changed: nil when their certificate is in use now, an error when
	// they cannot be used and the one before them is. It is called during a handshake, by one at a time; nil means nobody
	// is told.
	Changed func(error)
}

// File is a certificate that is read again when its files change. Load makes one.
type File struct {
	config  Config
	began   time.Time
	current atomic.Pointer[tls.Certificate]
	looked  atomic.Int64 // when the files were looked at last, as a time.Duration since began

	mu      sync.Mutex // held while the files are looked at; nobody waits for it
	stamps  [2]stamp   // guarded by mu, as is the rest: of the files read last
	read    time.Time  // when they were
	digest  [sha256.Size]byte
	inUse   [sha256.Size]byte
	failing string // what is wrong with them; empty when they are in use
}

// stamp is what a file system says of a file without reading it; nil when there is none. Times and sizes may be the same in
// two files, of which a symbolic link points to one and then to the other: images are built that way.
type stamp struct{ fs.FileInfo }

func (s stamp) same(as stamp) bool {
	if s.FileInfo == nil || as.FileInfo == nil {
		return s.FileInfo == as.FileInfo
	}
	return s.ModTime().Equal(as.ModTime()) && s.Size() == as.Size() && os.SameFile(s.FileInfo, as.FileInfo)
}

func (s stamp) regular() bool { return s.FileInfo == nil || s.Mode().IsRegular() }

// Load reads the files for the first time. What is no file, such as a pipe, is read only then.
func Load(config Config) (*File, error) {
	f := &File{config: config, began: time.Now()}
	stamps, err := f.look()
	if err != nil {
		return nil, err
	}
	pair, digest, err := f.load()
	if err != nil {
		return nil, err
	}
	f.current.Store(pair)
	f.stamps, f.read, f.digest, f.inUse = stamps, time.Now(), digest, digest
	return f, nil
}

// Certificate returns the certificate that is in use. It looks whether there is a newer one.
func (f *File) Certificate() *tls.Certificate {
	since := time.Since(f.began)
	if since-time.Duration(f.looked.Load()) >= lookInterval && f.mu.TryLock() {
		f.looked.Store(int64(since))
		news, err := f.refreshLocked()
		f.mu.Unlock()
		if news && f.config.Changed != nil {
			f.config.Changed(err)
		}
	}
	return f.current.Load()
}

// ForServer is a GetCertificate of tls.Config.
func (f *File) ForServer(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.Certificate(), nil }

// ForClient is a GetClientCertificate of tls.Config. It gives the certificate whatever the server asks for: a server says
// more about one that it does not like than about none.
func (f *File) ForClient(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return f.Certificate(), nil
}

// refreshLocked reads the files again where they have changed. It reports whether there is something to tell.
func (f *File) refreshLocked() (news bool, err error) {
	stamps, err := f.look()
	switch {
	case err != nil:
		return f.failLocked(err)
	case stamps[0].same(f.stamps[0]) && stamps[1].same(f.stamps[1]) && f.failing == "" && f.settledLocked():
		return false, nil
	}
	for i, path := range f.paths() {
		switch {
		case stamps[i].regular():
		case f.stamps[i].regular():
			return f.failLocked(fault(path, errNoFile))
		default: // it was none to begin with
			return false, nil
		}
	}
	began := time.Now()
	pair, digest, err := f.load()
	if err == nil || digest != [sha256.Size]byte{} { // they could be read
		f.stamps, f.read, f.digest = stamps, began, digest
	}
	switch {
	case err != nil:
		return f.failLocked(err)
	case digest == f.inUse && f.failing == "":
		return false, nil // written anew, and the same
	}
	f.current.Store(pair)
	f.inUse, f.failing = digest, ""
	return true, nil
}

// settledLocked says that the times of the files would tell a change since they were read.
func (f *File) settledLocked() bool {
	for _, s := range f.stamps {
		if s.FileInfo != nil && f.read.Sub(s.ModTime()) < settled {
			return false
		}
	}
	return true
}

// failLocked notes what is wrong with the files, which is told once for each content.
func (f *File) failLocked(err error) (news bool, _ error) {
	text := fmt.Sprintf("%x %v", f.digest, err)
	news = f.failing != text
	f.failing = text
	return news, err
}

// look asks the file system about the files.
func (f *File) look() (stamps [2]stamp, err error) {
	for i, path := range f.paths() {
		info, err := os.Stat(path)
		if err != nil {
			return stamps, fault(path, pathless(err))
		}
		stamps[i] = stamp{info}
	}
	return stamps, nil
}

func (f *File) paths() []string {
	if f.config.Key == "" {
		return []string{f.config.Cert}
	}
	return []string{f.config.Cert, f.config.Key}
}

// load reads the files. The digest is set when they could be read, also when they cannot be used.
func (f *File) load() (*tls.Certificate, [sha256.Size]byte, error) {
	var contents [2][]byte
	hash := sha256.New()
	for i, path := range f.paths() {
		content, err := readFile(path)
		if err != nil {
			return nil, [sha256.Size]byte{}, fault(path, err)
		}
		contents[i] = content
		_, _ = fmt.Fprintf(hash, "%d:", len(content)) // a hash takes everything
		_, _ = hash.Write(content)
	}
	digest := [sha256.Size]byte(hash.Sum(nil))
	pair, err := f.config.parse(contents[0], contents[1])
	if err != nil {
		return nil, digest, fault(f.guilty(err), err)
	}
	return pair, digest, nil
}

// guilty is the file that a fault is about.
func (f *File) guilty(err error) string {
	if f.config.Key != "" && isKeyFault(err) {
		return f.config.Key
	}
	return f.config.Cert
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the user says which file
	if err != nil {
		return nil, pathless(err)
	}
	defer func() { _ = file.Close() }() // only read
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, pathless(err)
	case len(content) > maxFile:
		return nil, fmt.Errorf("is longer than %d MiB", maxFile>>20)
	}
	return content, nil
}

// errNoFile is what became of a file that was one.
var errNoFile = errors.New("is no longer a file but a folder, a pipe or the like")

// pathless drops the operation and the path from an error of package os: the message around it names the file.
func pathless(err error) error {
	if outer, ok := errors.AsType[*fs.PathError](err); ok {
		err = outer.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// fault says what is wrong with a file. A path with an @ in it may be a connection string that went astray, with a
// password; it is not shown.
func fault(path string, err error) error {
	if strings.Contains(path, "@") {
		return fmt.Errorf("the file of the certificate %w", err)
	}
	return fmt.Errorf("the file %s %w", path, err)
}
