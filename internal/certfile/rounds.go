// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certfile

import (
	"encoding/asn1"
	"math"
)

const (
	// maxRounds bounds the rounds that a PKCS#12 file has its keys derived with, in all. Tools take some thousands,
	// careful people a million; two thousand million, which a number in the file can say, take half an hour.
	maxRounds = 3_000_000
	// maxNesting bounds the nesting of a file.
	maxNesting = 32
)

// rounds returns how many rounds the derivations of keys take that can be seen in a PKCS#12 file, in all. The number stands
// behind the salt (RFC 7292 appendix C, RFC 8018 appendix A.2) or at the end of MacData (RFC 7292 section 4): in a sequence
// that does not begin with a number, as those of keys and signatures do. What cannot be read is left to the decoder.
func rounds(der []byte) int {
	return countRounds(der, maxNesting)
}

func countRounds(der []byte, depth int) int {
	all := elements(der)
	if depth == 0 {
		return 0
	}
	total := 0
	for _, element := range all {
		switch {
		case element.IsCompound:
			total = plus(total, ownRounds(element))
			total = plus(total, countRounds(element.Bytes, depth-1))
		case element.Class == asn1.ClassUniversal && element.Tag == asn1.TagOctetString:
			total = plus(total, countRounds(element.Bytes, depth-1)) // it may wrap what goes on
		}
	}
	return total
}

// ownRounds is what stands in a sequence itself.
func ownRounds(sequence asn1.RawValue) int {
	if sequence.Class != asn1.ClassUniversal || sequence.Tag != asn1.TagSequence {
		return 0
	}
	parts := elements(sequence.Bytes)
	if len(parts) < 2 || isInteger(parts[0]) {
		return 0
	}
	if len(parts) > 5 && parts[0].Class == asn1.ClassContextSpecific && parts[0].IsCompound {
		return 0 // a certificate, with its serial number
	}
	total := 0
	for _, part := range parts[1:] {
		if !isInteger(part) {
			continue
		}
		var n int32
		if _, err := asn1.Unmarshal(part.FullBytes, &n); err != nil {
			return math.MaxInt // it is too large, or malformed
		}
		total = plus(total, int(n))
	}
	return total
}

// elements are those that stand side by side; none when that is not all there is.
func elements(der []byte) []asn1.RawValue {
	var all []asn1.RawValue
	for len(der) > 0 {
		var element asn1.RawValue
		rest, err := asn1.Unmarshal(der, &element)
		if err != nil {
			return nil
		}
		all, der = append(all, element), rest
	}
	return all
}

func isInteger(element asn1.RawValue) bool {
	return element.Class == asn1.ClassUniversal && element.Tag == asn1.TagInteger
}

// plus adds without going over.
func plus(a, b int) int {
	if b < 0 || a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
