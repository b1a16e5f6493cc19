// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// disk keeps the latest token of each token endpoint in a file. It is a help and no more: what goes wrong with it leads to
// one request more.
type disk struct {
	folder string
	client string
	secret hidden
	failed func(error)
}

// cached is the content of a file.
type cached struct {
	Endpoint string    `json:"endpoint"`
	Client   string    `json:"client"`
	Token    string    `json:"token"`
	Salt     []byte    `json:"salt"`
	Secret   []byte    `json:"secret"` // a digest
	Obtained time.Time `json:"obtained"`
	Expires  time.Time `json:"expires"`
}

// digest tells the secret for which a token was given from another one. Who can read the file can try secrets by it, so it is
// made slow, and salted.
func (d *disk) digest(salt []byte) ([]byte, error) {
	return pbkdf2.Key(sha256.New, d.secret.reveal(), salt, digestRounds, sha256.Size)
}

const (
	digestRounds = 10_000 // some milliseconds
	saltSize     = 16
)

// path is the file for an endpoint and a client. The secret has no part in it, so that the name tells nothing of it.
func (d *disk) path(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint + "\n" + d.client))
	return filepath.Join(d.folder, hex.EncodeToString(sum[:16])+".json")
}

// load returns a token that has life left. What others can read or write, or made, is not ours.
func (d *disk) load(endpoint string) (header string, life time.Duration, ok bool) {
	if checkFolder(d.folder) != nil {
		return "", 0, false
	}
	f, err := openOwn(d.path(endpoint))
	if err != nil {
		return "", 0, false
	}
	defer func() { _ = f.Close() }() // only read
	content, err := io.ReadAll(io.LimitReader(f, maxAnswer))
	if err != nil {
		return "", 0, false
	}
	c, life, ok := d.parse(content, endpoint, time.Now())
	if !ok {
		return "", 0, false
	}
	digest, err := d.digest(c.Salt)
	if err != nil || subtle.ConstantTimeCompare(digest, c.Secret) != 1 {
		return "", 0, false
	}
	return c.Token, life, true
}

// parse reads the content of a file. A token from the future was written under another clock, and none lives for longer
// than it was said to.
func (d *disk) parse(content []byte, endpoint string, now time.Time) (c cached, life time.Duration, ok bool) {
	if json.Unmarshal(content, &c) != nil || c.Endpoint != endpoint || c.Client != d.client {
		return cached{}, 0, false
	}
	bare, isBearer := strings.CutPrefix(c.Token, "Bearer ")
	life = min(c.Expires.Sub(now), maxLife)
	if !isBearer || !sendable(bare) || life <= 0 || c.Obtained.After(now.Add(time.Minute)) {
		return cached{}, 0, false
	}
	return c, life, true
}

// store writes a token, whole or not at all.
func (d *disk) store(endpoint, header string, life time.Duration) {
	now := time.Now().Round(0)
	c := cached{
		Endpoint: endpoint, Client: d.client, Token: header, Salt: make([]byte, saltSize), Obtained: now, Expires: now.Add(life),
	}
	_, _ = rand.Read(c.Salt) // it never fails, says its documentation
	digest, err := d.digest(c.Salt)
	if err == nil {
		c.Secret = digest
		err = d.write(d.path(endpoint), c)
	}
	if err != nil && d.failed != nil {
		d.failed(fmt.Errorf("keep a token on disk: %w", err))
	}
}

func (d *disk) write(path string, c cached) error {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.folder, 0o700); err != nil {
		return err
	}
	if err := checkFolder(d.folder); err != nil {
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
