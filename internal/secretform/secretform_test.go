// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package secretform_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/secretform"
)

const secret = `p@ss/w"ord+7é%`

func TestEveryFormIsFoundAndScrubbed(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	every := ""
	for i := range len(secret) {
		every += fmt.Sprintf("%%%02x", secret[i])
	}
	texts := map[string]string{
		"as it is": "a " + secret + " b", "quoted": fmt.Sprintf("%q", secret), "in a form": url.QueryEscape(secret), "in a path": url.PathEscape(secret),
		"every byte percent-encoded": every, "in small letters": strings.ToLower(url.QueryEscape(secret)),
		"in hexadecimal": fmt.Sprintf("%x", secret), "in JSON": string(encoded),
	}
	for before := range 4 {
		text := strings.Repeat("x", before) + secret + strings.Repeat("y", 5)
		texts[fmt.Sprintf("in base64 behind %d bytes", before)] = base64.StdEncoding.EncodeToString([]byte(text))
		texts[fmt.Sprintf("in base64 for URLs behind %d bytes", before)] = base64.URLEncoding.EncodeToString([]byte(text))
	}
	for name, text := range texts {
		if !secretform.Contains(text, "other secret", secret) {
			t.Errorf("%s: %q is not found", name, text)
		}
		if got := secretform.Scrub(text, secret); secretform.Contains(got, secret) || !strings.Contains(got, secretform.Mask) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestOtherTextsAreLeftAlone(t *testing.T) {
	t.Parallel()
	const text = "the server said no to Bearer a"
	if got := secretform.Scrub(text, secret, "a", ""); got != text || secretform.Contains(text, secret, "a", "") {
		t.Errorf("got %q, want it unchanged", got)
	}
}
