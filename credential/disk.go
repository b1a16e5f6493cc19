// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// disk keeps the latest token of each token endpoint in a file. It is a help and no more: what goes wrong with it leads to
// one request more.
type disk struct {
	folder string
	client string
	failed func(error)
}

// cached is the content of a file.
type cached struct {
	Endpoint string    `json:"endpoint"`
	Client   string    `json:"client"`
	Token    string    `json:"token"`
	Obtained time.Time `json:"obtained"`
	Expires  time.Time `json:"expires"`
}

// path is the file for an endpoint and a client. The secret has no part in it, so that the name tells nothing of it.
func (d *disk) path(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint + "\n" + d.client))
	return filepath.Join(d.folder, hex.EncodeToString(sum[:16])+".json")
}

// load returns a token that has life left. A file that others can read is not ours.
func (d *disk) load(endpoint string) (header string, life time.Duration, ok bool) {
	f, err := os.Open(d.path(endpoint))
	if err != nil {
		return "", 0, false
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", 0, false
	}
	content, err := io.ReadAll(io.LimitReader(f, maxAnswer))
	if err != nil {
		return "", 0, false
	}
	return d.parse(content, endpoint, time.Now())
}

// parse reads the content of a file. A token from the future was written under another clock, and none lives for longer
// than it was said to.
func (d *disk) parse(content []byte, endpoint string, now time.Time) (header string, life time.Duration, ok bool) {
	var c cached
	if json.Unmarshal(content, &c) != nil || c.Endpoint != endpoint || c.Client != d.client {
		return "", 0, false
	}
	bare, isBearer := strings.CutPrefix(c.Token, "Bearer ")
	life = min(c.Expires.Sub(now), maxLife)
	if !isBearer || !sendable(bare) || life <= 0 || c.Obtained.After(now.Add(time.Minute)) {
		return "", 0, false
	}
	return c.Token, life, true
}

// store writes a token, whole or not at all.
func (d *disk) store(endpoint, header string, life time.Duration) {
	now := time.Now().Round(0)
	content, err := json.Marshal(cached{
		Endpoint: endpoint, Client: d.client, Token: header, Obtained: now, Expires: now.Add(life),
	})
	if err == nil {
		err = d.write(d.path(endpoint), content)
	}
	if err != nil && d.failed != nil {
		d.failed(fmt.Errorf("keep a token on disk: %w", err))
	}
}

func (d *disk) write(path string, content []byte) error {
	if err := os.MkdirAll(d.folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(d.folder, ".token-*") // for this user alone
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
