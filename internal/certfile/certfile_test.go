// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certfile_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/evenkeel-go/evenkeel/internal/certfile"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// planted is a password that must show up nowhere.
const planted = "pl@nted/secret"

// issue makes a certificate of an authority, and both in PEM form.
func issue(t *testing.T, name string) (pair tls.Certificate, cert, key []byte) {
	t.Helper()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	if pair, err = ca.IssueFor(devcert.Request{Names: []string{name}}); err != nil {
		t.Fatal(err)
	}
	if cert, key, err = devcert.Encode(pair); err != nil {
		t.Fatal(err)
	}
	return pair, cert, key
}

func encode(kind string, der []byte, err error) []byte {
	if err != nil {
		return nil // the test fails for want of a key
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pkcs12File is a PKCS#12 file with a chain.
func pkcs12File(t *testing.T, with *pkcs12.Encoder, pair tls.Certificate, password string) []byte {
	t.Helper()
	other, _, _ := issue(t, "intermediate.test")
	content, err := with.Encode(pair.PrivateKey, pair.Leaf, []*x509.Certificate{other.Leaf}, password)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// manyRounds has the MAC of a file take 2^31-1 rounds.
func manyRounds(t *testing.T, file []byte) []byte {
	t.Helper()
	var all struct {
		Version  int
		AuthSafe asn1.RawValue
		Mac      struct {
			Digest     asn1.RawValue
			Salt       []byte
			Iterations int `asn1:"optional,default:1"`
		}
	}
	if _, err := asn1.Unmarshal(file, &all); err != nil {
		t.Fatal(err)
	}
	all.Mac.Iterations = 1<<31 - 1
	file, err := asn1.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// manyKeyRounds has each key of a file take 8 million rounds instead of 100,000, which is no longer to write.
func manyKeyRounds(t *testing.T, file []byte) []byte {
	t.Helper()
	few, many := []byte{2, 3, 0x01, 0x86, 0xa0}, []byte{2, 3, 0x7f, 0xff, 0xff}
	if bytes.Count(file, few) < 2 {
		t.Fatal("the rounds are not found")
	}
	return bytes.ReplaceAll(file, few, many)
}

func TestFormsThatAreRead(t *testing.T) {
	t.Parallel()
	pair, cert, key := issue(t, "node1.test")
	ec, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	sec1 := encode("EC PRIVATE KEY", ec, err)
	_, otherCert, _ := issue(t, "intermediate.test")
	tests := []struct {
		name      string
		cert, key []byte
		password  string
		chain     int
	}{
		{"PEM in two files", cert, key, "", 1},
		{"PEM in one file", append(append([]byte(nil), cert...), key...), nil, "", 1},
		{"PEM in one file, the key first", append(append([]byte(nil), key...), cert...), nil, "", 1},
		{"PEM with text around, and a key in the form of SEC 1", append([]byte("Bag Attributes\n"), cert...), sec1, "", 1},
		{"PEM with an intermediate certificate", append(append([]byte(nil), cert...), otherCert...), key, "", 2},
		{"PEM with a password that it does not need", cert, key, planted, 1},
		{"PKCS#12", pkcs12File(t, pkcs12.Modern, pair, planted), nil, planted, 2},
		{"PKCS#12 of old tools", pkcs12File(t, pkcs12.LegacyDES, pair, planted), nil, planted, 2},
		{"PKCS#12 of careful people", pkcs12File(t, pkcs12.Modern.WithIterations(200_000), pair, planted), nil, planted, 2},
		{"PKCS#12 without a password", pkcs12File(t, pkcs12.Passwordless, pair, ""), nil, "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := certfile.ParseForTest(tt.cert, tt.key, tt.password)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Leaf.Equal(pair.Leaf) || len(got.Certificate) != tt.chain || !pair.PrivateKey.(*ecdsa.PrivateKey).Equal(got.PrivateKey) {
				t.Errorf("got %q with %d certificates, want node1.test with its key and %d", got.Leaf.Subject, len(got.Certificate), tt.chain)
			}
		})
	}
}

func TestFaultsAreNamedWithoutAWordOfTheContent(t *testing.T) {
	t.Parallel()
	pair, cert, key := issue(t, "node1.test")
	_, _, otherKey := issue(t, "node2.test")
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	old := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("x")})
	p12 := pkcs12File(t, pkcs12.Modern, pair, planted)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		cert, key []byte
		password  string
		want      string
	}{
		{"nothing", nil, nil, "", "holds no certificate"},
		{"only a key", key, nil, "", "holds no certificate"},
		{"only a certificate", cert, nil, "", "holds no private key"},
		{"a damaged certificate", encode("CERTIFICATE", []byte(planted), nil), key, "", "holds a damaged certificate"},
		{"a damaged key", cert, encode("PRIVATE KEY", []byte(planted), nil), "", "holds a damaged private key"},
		{"a damaged intermediate certificate", slices.Concat(cert, bytes.Replace(cert, []byte("MII"), []byte("M!!!"), 1)), key, "", "holds a damaged certificate"},
		{"an intermediate certificate that is cut", slices.Concat(cert, cert[:len(cert)-40]), key, "", "holds a damaged certificate"},
		{"a certificate that is cut before the key", slices.Concat(cert, cert[:len(cert)-40], key), nil, "", "holds a damaged certificate"},
		{"a key that is cut", cert, key[:len(key)-40], "", "holds a damaged private key"},
		{"PKCS#12 with rounds for half an hour", manyRounds(t, pkcs12File(t, pkcs12.LegacyDES, pair, planted)), nil, planted, "take millions of rounds"},
		{"an encrypted key", cert, encrypted, planted, "holds an encrypted private key, which is not read from PEM: decrypt it"},
		{"a key encrypted in the old way", cert, old, planted, "holds an encrypted private key"},
		{"the key of another certificate", cert, otherKey, "", "does not belong to the first certificate"},
		{"a key of another kind", cert, encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil), "", "does not belong"},
		{"PKCS#12 with keys that take too many rounds", manyKeyRounds(t, pkcs12File(t, pkcs12.Modern.WithIterations(100_000), pair, planted)), nil, planted, "take millions of rounds"},
		{"PKCS#12 and no password", p12, nil, "", "needs a password, and none was given"},
		{"PKCS#12 and another password", p12, nil, planted + "x", "does not open with the password that was given"},
		{"PKCS#12 that is cut", p12[:len(p12)/2], nil, planted, "is neither in PEM form nor a PKCS#12 file"},
		{"something else", []byte(planted), nil, planted, "is neither in PEM form nor a PKCS#12 file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := certfile.ParseForTest(tt.cert, tt.key, tt.password)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), planted) {
				t.Errorf("%q shows what was read", err)
			}
		})
	}
}

func TestTheFileIsNamedUnlessItMayHoldASecret(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.pem")
	if _, err := certfile.Load(certfile.Config{Cert: missing}); err == nil || !strings.Contains(err.Error(), "the file "+missing+" cannot be read: ") {
		t.Errorf("got %v, want the name of the file", err)
	}
	if _, err := certfile.Load(certfile.Config{Cert: "chronicle://app:marker@a"}); err == nil || strings.Contains(err.Error(), "marker") {
		t.Errorf("got %v, want an error without the path", err)
	}
	_, cert, _ := issue(t, "a.test")
	dir := t.TempDir()
	write(t, dir, "cert.pem", cert)
	write(t, dir, "key.pem", cert)
	_, err := certfile.Load(certfile.Config{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")})
	if err == nil || !strings.Contains(err.Error(), "key.pem holds no private key") {
		t.Errorf("got %v, want the file with the fault", err)
	}
}

// Where there is a file for the key, or PEM is all that is taken, what helps with PKCS#12 is no help.
func TestPKCS12IsRefusedWhereItsKeyWouldNotCount(t *testing.T) {
	t.Parallel()
	pair, cert, key := issue(t, "node1.test")
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	p12 := pkcs12File(t, pkcs12.Passwordless, pair, "")
	tests := []struct {
		name      string
		cert, key []byte
		guilty    string
		want      string
	}{
		{"PKCS#12 beside a key", p12, key, "cert", "is not in PEM form"},
		{"PKCS#12 alone", p12, nil, "cert", "is not in PEM form"},
		{"something else", []byte(planted), key, "cert", "is not in PEM form"},
		{"nothing", nil, key, "cert", "holds no certificate: give one in PEM form"},
		{"an encrypted key", cert, encrypted, "key", "holds an encrypted private key, which is not read from PEM: decrypt it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := certfile.Config{Cert: write(t, dir, "cert", tt.cert), PEM: tt.key == nil}
			if tt.key != nil {
				config.Key = write(t, dir, "key", tt.key)
			}
			_, err := certfile.Load(config)
			if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, tt.guilty)+" "+tt.want) {
				t.Fatalf("got %v, want that the file %s %s", err, tt.guilty, tt.want)
			}
			if strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "PKCS#12 file and") {
				t.Errorf("%q gives advice that cannot be followed", err)
			}
		})
	}
}

func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	// In one step, as those do it who renew certificates.
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// watched is a file that is loaded, and what was told of it.
type watched struct {
	*certfile.File
	dir  string
	told []error
}

func watch(t *testing.T, cert, key []byte) *watched {
	t.Helper()
	w := &watched{dir: t.TempDir()}
	var err error
	w.File, err = certfile.Load(certfile.Config{
		Cert: write(t, w.dir, "cert.pem", cert), Key: write(t, w.dir, "key.pem", key),
		Changed: func(err error) { w.told = append(w.told, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// name is whom the certificate in use is for.
func (w *watched) name() string { return w.Certificate().Leaf.DNSNames[0] }

// after checks what is in use a second later, and how often something was told by then.
func (w *watched) after(t *testing.T, what, name string, told int) {
	t.Helper()
	time.Sleep(time.Second) // in a bubble
	if got := w.name(); got != name || len(w.told) != told {
		t.Errorf("%s: %s is in use and %q told, want %s and %d", what, got, w.told, name, told)
	}
}

func TestAChangedFileIsReadASecondLaterAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cert, key := issue(t, "old.test")
		_, newCert, newKey := issue(t, "new.test")
		w := watch(t, cert, key)
		w.after(t, "nothing has changed", "old.test", 0)
		write(t, w.dir, "cert.pem", newCert)
		write(t, w.dir, "key.pem", newKey)
		if got := w.name(); got != "old.test" {
			t.Errorf("%s is in use at once: the files are looked at more than once a second", got)
		}
		w.after(t, "renewed", "new.test", 1)
		if w.told[0] != nil {
			t.Errorf("told %v, want that it is in use", w.told[0])
		}
		write(t, w.dir, "cert.pem", newCert)
		w.after(t, "written anew, and the same", "new.test", 1)
	})
}

func TestABrokenFileKeepsTheOldCertificateAndIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cert, key := issue(t, "old.test")
		_, newCert, newKey := issue(t, "new.test")
		w := watch(t, cert, key)
		write(t, w.dir, "cert.pem", []byte("-----BEGIN nothing"))
		w.after(t, "broken", "old.test", 1)
		w.after(t, "broken still", "old.test", 1)
		write(t, w.dir, "cert.pem", newCert)
		w.after(t, "without its key", "old.test", 2)
		if err := os.Remove(filepath.Join(w.dir, "key.pem")); err != nil {
			t.Fatal(err)
		}
		w.after(t, "with no key at all", "old.test", 3)
		write(t, w.dir, "key.pem", newKey)
		w.after(t, "mended", "new.test", 4)
		for i, want := range []string{"holds no certificate", "does not belong", "key.pem cannot be read"} {
			if err := w.told[i]; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("told %v, want %q", err, want)
			}
		}
		if w.told[3] != nil {
			t.Errorf("told %v, want that it is in use", w.told[3])
		}
		write(t, w.dir, "key.pem", key)
		w.after(t, "broken again", "new.test", 5)
		write(t, w.dir, "key.pem", newKey)
		w.after(t, "as before", "new.test", 6)
	})
}

// Images are built with all times the same, and a symbolic link leads from one version to the next.
func TestAFileThatALinkLeadsToAnewIsReadWhateverItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cert, key := issue(t, "old.test")
		_, newCert, newKey := issue(t, "new.test")
		dir, written := t.TempDir(), time.Unix(1, 0)
		link := filepath.Join(dir, "current")
		put := func(version string, content []byte) {
			path := filepath.Join(dir, version)
			err := errors.Join(os.WriteFile(path, content, 0o600), os.Chtimes(path, written, written), os.Symlink(version, link+".new"), os.Rename(link+".new", link))
			if err != nil {
				t.Fatal(err)
			}
		}
		old, next := slices.Concat(cert, key), slices.Concat(newCert, newKey)
		size := max(len(old), len(next)) // what stands around PEM does not count
		put("v1", append(old, make([]byte, size-len(old))...))
		w := &watched{}
		var err error
		if w.File, err = certfile.Load(certfile.Config{Cert: link, Changed: func(err error) { w.told = append(w.told, err) }}); err != nil {
			t.Fatal(err)
		}
		w.after(t, "nothing has changed", "old.test", 0)
		put("v2", append(next, make([]byte, size-len(next))...))
		w.after(t, "the link leads to another file", "new.test", 1)
	})
}

func TestAFileThatIsNoFileAnyMoreIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cert, key := issue(t, "old.test")
		w := watch(t, cert, key)
		path := filepath.Join(w.dir, "cert.pem")
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		w.after(t, "a folder", "old.test", 1)
		w.after(t, "a folder still", "old.test", 1)
		if err := w.told[0]; err == nil || !strings.Contains(err.Error(), "no longer a file") {
			t.Errorf("told %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(t, w.dir, "cert.pem", cert)
		w.after(t, "a file again", "old.test", 2)
	})
}

// A file whose time and size are the same is not read: this one has other content, and nobody notices.
func TestAFileThatLooksTheSameIsNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cert, key := issue(t, "old.test")
		dir, written := t.TempDir(), time.Now().Add(-time.Hour)
		put := func(content []byte) {
			path := filepath.Join(dir, "one.pem")
			if err := errors.Join(os.WriteFile(path, content, 0o600), os.Chtimes(path, written, written)); err != nil {
				t.Fatal(err)
			}
		}
		put(append(cert, key...))
		w := &watched{}
		var err error
		if w.File, err = certfile.Load(certfile.Config{Cert: filepath.Join(dir, "one.pem"), Changed: func(err error) { w.told = append(w.told, err) }}); err != nil {
			t.Fatal(err)
		}
		put([]byte(strings.Repeat("x", len(cert)+len(key))))
		w.after(t, "not read", "old.test", 0)
		written = written.Add(time.Minute)
		put([]byte(strings.Repeat("x", len(cert)+len(key))))
		w.after(t, "read", "old.test", 1)
	})
}

// Many handshakes at a time read the files once, and wait for nobody.
func TestManyHandshakesAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cert, key := issue(t, "old.test")
		_, newCert, newKey := issue(t, "new.test")
		w := watch(t, cert, key)
		write(t, w.dir, "cert.pem", newCert)
		write(t, w.dir, "key.pem", newKey)
		time.Sleep(time.Second)
		for range 50 {
			go func() {
				if pair, err := w.ForServer(nil); err != nil || pair == nil {
					t.Errorf("got %v and %v", pair, err)
				}
			}()
		}
		synctest.Wait()
		if len(w.told) != 1 || w.name() != "new.test" {
			t.Errorf("told %v times, want once, and %s is in use", len(w.told), w.name())
		}
	})
}

// FuzzParse reads files of strangers: it must not panic, and gives a certificate with a key of its own or an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte(nil), "")
	f.Add([]byte{0x30, 0x03, 0x02, 0x01, 0x03}, []byte(nil), "x")
	f.Add([]byte(nil), []byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"), "")
	f.Fuzz(func(t *testing.T, cert, key []byte, password string) {
		if len(cert) > 0 && cert[0] == 0x30 {
			return // how long PKCS#12 takes to open is for its file to say
		}
		got, err := certfile.ParseForTest(cert, key, password)
		if (err == nil) != (got != nil && got.Leaf != nil && got.PrivateKey != nil) {
			t.Errorf("got %v and %v", got, err)
		}
	})
}
