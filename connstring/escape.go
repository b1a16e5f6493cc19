// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import "strings"

// unescape decodes every %XX of s once. A + stays a +. The second result is the offset of an escape that is not one,
// or -1.
func unescape(s string) (string, int) {
	if strings.IndexByte(s, '%') < 0 {
		return s, -1
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return "", i
		}
		b.WriteByte(hexValue(s[i+1])<<4 | hexValue(s[i+2]))
		i += 2
	}
	return b.String(), -1
}

// writeEscaped writes s with every byte escaped for which keep is false.
func writeEscaped(b *strings.Builder, s string, keep func(byte) bool) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; keep(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
}

// keepInCredentials and keepInValue escape more than Parse asks for, so that other readers of these strings, some of
// which take a + for a blank, read the same.
func keepInCredentials(c byte) bool { return isUnreserved(c) }

func keepInValue(c byte) bool { return isUnreserved(c) || strings.IndexByte("/:[]", c) >= 0 }

// keepInUserCompact, keepInPasswordCompact and keepInValueCompact escape only what Parse does not take as it is.
func keepInUserCompact(c byte) bool { return c != ':' && keepInPasswordCompact(c) }

func keepInPasswordCompact(c byte) bool {
	return c != ' ' && !isControl(c) && strings.IndexByte("%@/?#", c) < 0
}

func keepInValueCompact(c byte) bool { return !isControl(c) && strings.IndexByte("%&#", c) < 0 }

// isUnreserved follows RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isControl(c byte) bool { return c < ' ' || c == 0x7f }

// hexValue returns the value of a hexadecimal digit.
func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
