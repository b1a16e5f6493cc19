// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package secretform

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A text is looked at as it is and with its escapes decoded: encoders differ in what they escape, but all that they write
// decodes to the same.

// decoder reads one escape.
type decoder struct {
	lead string // the bytes with which escapes begin
	// read decodes the escape at the beginning of text into room, and returns what it stands for and how long it is; 0
	// when it is none.
	read func(room []byte, text string) (decoded []byte, length int)
}

// step is one decoder and what it was given.
type step struct {
	decoder decoder
	text    string
}

// decoders are those of percent-encoding, of percent-encoding in forms, where a plus is a blank, and of quoted strings.
func decoders() []decoder {
	return []decoder{
		{lead: "%", read: percent},
		{lead: "%+", read: formPercent},
		{lead: `\`, read: backslash},
	}
}

// eachView calls see with a text as it is and with one or two kinds of escapes decoded, until it returns true, and reports
// whether it did. The steps are those that led to a view.
func eachView(text string, see func(view string, steps []step) bool) bool {
	if see(text, nil) {
		return true
	}
	for _, first := range decoders() {
		once, changed := first.decode(text)
		if !changed {
			continue
		}
		steps := []step{{first, text}}
		if see(once, steps) {
			return true
		}
		for _, second := range decoders() {
			twice, changed := second.decode(once)
			if changed && see(twice, append(steps[:1:1], step{second, once})) {
				return true
			}
		}
	}
	return false
}

// decode returns the text with its escapes decoded, and whether there were any.
func (d decoder) decode(text string) (decoded string, changed bool) {
	if !strings.ContainsAny(text, d.lead) {
		return text, false
	}
	var b strings.Builder
	d.walk(text, func(_ int, part string, escape bool) bool {
		changed = changed || escape
		b.WriteString(part)
		return true
	})
	return b.String(), changed
}

// walk calls part with each piece of what a text decodes to, and where in the text it begins, until that returns false.
func (d decoder) walk(text string, part func(at int, decoded string, escape bool) bool) {
	var room [utf8.UTFMax]byte
	for at := 0; at < len(text); {
		plain := strings.IndexAny(text[at:], d.lead)
		if plain < 0 {
			plain = len(text) - at
		}
		if plain > 0 && !part(at, text[at:at+plain], false) {
			return
		}
		if at += plain; at == len(text) {
			return
		}
		decoded, length := d.read(room[:0], text[at:])
		escape := length > 0
		if !escape {
			decoded, length = append(room[:0], text[at]), 1
		}
		if !part(at, string(decoded), escape) {
			return
		}
		at += length
	}
}

// origins are where in the text before the step the spans of the text after it came from. They are in order and apart. An
// escape belongs to them whole.
func (s step) origins(of []span) []span {
	found := make([]span, 0, len(of))
	done := 0   // how much has been decoded
	begin := -1 // where the span that is looked for begins; -1 when that is not known yet
	s.decoder.walk(s.text, func(at int, decoded string, escape bool) bool {
		after := done + len(decoded)
		for len(found) < len(of) {
			next := of[len(found)]
			if begin < 0 && after > next.begin {
				begin = at
				if !escape {
					begin += next.begin - done
				}
			}
			if begin < 0 || after < next.end {
				break
			}
			end := at + next.end - done
			if escape {
				end = at + escapeLength(s.decoder, s.text[at:])
			}
			found, begin = append(found, span{begin, end}), -1
		}
		done = after
		return len(found) < len(of)
	})
	return found
}

func escapeLength(d decoder, text string) int {
	var room [utf8.UTFMax]byte
	_, length := d.read(room[:0], text)
	return length
}

// percent reads %41, and %u0041 as old scripts write it.
func percent(room []byte, text string) ([]byte, int) {
	if len(text) > 1 && text[0] == '%' && text[1] == 'u' {
		return unicodeEscape(room, text, 2, 4)
	}
	return byteEscape(room, text, 1, 2, 16)
}

func formPercent(room []byte, text string) ([]byte, int) {
	if text[0] == '+' {
		return append(room, ' '), 1
	}
	return percent(room, text)
}

// backslash reads the escapes of JSON, of Go and of C.
func backslash(room []byte, text string) ([]byte, int) {
	if len(text) < 2 {
		return nil, 0
	}
	switch c := text[1]; c {
	case 'u':
		return unicodeEscape(room, text, 2, 4)
	case 'U':
		return unicodeEscape(room, text, 2, 8)
	case 'x':
		return byteEscape(room, text, 2, 2, 16)
	case '"', '\'', '\\', '/':
		return append(room, c), 2
	default:
		if i := strings.IndexByte("abtnvfr", c); i >= 0 {
			return append(room, "\a\b\t\n\v\f\r"[i]), 2
		}
		return byteEscape(room, text, 1, 3, 8)
	}
}

// number reads the digits of a number that stand in a text.
func number(text string, from, digits, base int) (uint64, bool) {
	if len(text) < from+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(text[from:from+digits], base, 32)
	return n, err == nil
}

func byteEscape(room []byte, text string, from, digits, base int) ([]byte, int) {
	n, ok := number(text, from, digits, base)
	if !ok || n > 255 {
		return nil, 0
	}
	return append(room, byte(n)), from + digits
}

// unicodeEscape reads a code point, which may be in two halves (UTF-16).
func unicodeEscape(room []byte, text string, from, digits int) ([]byte, int) {
	n, ok := number(text, from, digits, 16)
	if !ok || n > utf8.MaxRune {
		return nil, 0
	}
	r, length := rune(n), from+digits
	if utf16.IsSurrogate(r) && strings.HasPrefix(text[length:], text[:from]) {
		if low, ok := number(text[length:], from, digits, 16); ok {
			if whole := utf16.DecodeRune(r, rune(low)); whole != utf8.RuneError { //nolint:gosec // of four digits
				return utf8.AppendRune(room, whole), 2 * length
			}
		}
	}
	return utf8.AppendRune(room, r), length
}
