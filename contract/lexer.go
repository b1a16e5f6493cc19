// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"errors"
	"strings"
)

// lexer cuts proto source text into words: names with their dots, numbers, strings, and single punctuation marks. Blanks
// and comments are between words.
type lexer struct {
	rest string
	line int // where rest begins
}

// next returns the next word, or "" at the end of the text.
func (l *lexer) next() (string, error) {
	if err := l.blanks(); err != nil {
		return "", err
	}
	if l.rest == "" {
		return "", nil
	}
	length := 1
	switch c := l.rest[0]; {
	case c == '"' || c == '\'':
		if length = stringLength(l.rest); length == 0 {
			return "", errors.New("a string does not end")
		}
	case isNameByte(c):
		for length < len(l.rest) && isNameByte(l.rest[length]) {
			length++
		}
	}
	word := l.rest[:length]
	l.rest = l.rest[length:]
	return word, nil
}

// blanks skips what is between words.
func (l *lexer) blanks() error {
	for {
		trimmed := strings.TrimLeft(l.rest, " \t\r\n\f\v\ufeff")
		l.line += strings.Count(l.rest[:len(l.rest)-len(trimmed)], "\n")
		l.rest = trimmed
		switch {
		case strings.HasPrefix(l.rest, "//"):
			_, l.rest, _ = strings.Cut(l.rest, "\n")
			l.line++
		case strings.HasPrefix(l.rest, "/*"):
			comment, rest, found := strings.Cut(l.rest[2:], "*/")
			if !found {
				return errors.New("a comment does not end")
			}
			l.line += strings.Count(comment, "\n")
			l.rest = rest
		default:
			return nil
		}
	}
}

// stringLength is the length of the string that a text begins with, quotes included; 0 when it does not end on its line.
func stringLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case text[0]:
			return i + 1
		case '\\':
			i++
		case '\n':
			return 0
		}
	}
	return 0
}

// isNameByte says that a byte may be in a name or a number. Letters beyond ASCII pass: .NET has them.
func isNameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// isName says that a word is a name.
func isName(word string) bool {
	return word != "" && isNameByte(word[0]) && (word[0] < '0' || word[0] > '9')
}
