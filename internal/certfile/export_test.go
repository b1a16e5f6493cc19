// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certfile

import "crypto/tls"

// ParseForTest parses the content of files.
func ParseForTest(cert, key []byte, password string) (*tls.Certificate, error) {
	return parse(cert, key, password, false)
}
