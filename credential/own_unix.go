// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build unix

package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

var errNotOwn = errors.New("is not this user's alone")

// openOwn opens a file that this user alone can read and has made. It does not wait for the other end of a pipe.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || owner(info) != os.Geteuid()) {
		err = errNotOwn
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkFolder says whether somebody else could put files into a folder.
func checkFolder(folder string) error {
	info, err := os.Stat(folder)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", folder)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others than this user may write into the folder %s (chmod go-w)", folder)
	}
	if id := owner(info); id != os.Geteuid() && id != 0 {
		return fmt.Errorf("the folder %s belongs to another user", folder)
	}
	return nil
}

// owner is the id of the user to whom a file belongs; -1 when that is not known.
func owner(info fs.FileInfo) int {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(stat.Uid)
}
