// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"encoding/json"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// tellLoad puts what we say beyond the stock protocol into the header of a count.
func (r *Registry) tellLoad(header http.Header) {
	header[extension.ArrivalRate] = noArrivals
	if rate := r.arrivalRate(); rate >= leastRate {
		header.Set(extension.ArrivalRate, extension.FormatRate(rate))
	}
	if r.config.Capacity > 0 {
		header.Set(extension.Capacity, strconv.Itoa(r.config.Capacity))
	}
}

// leastRate is below what can be told apart from 0 in a header.
const leastRate = 0.05

// noArrivals is the header of most counts: shared, as those above are.
//
//nolint:gochecknoglobals // a constant, as far as the language allows
var noArrivals = []string{"0"}

func (r *Registry) serveReserve(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		refuseMethod(w, http.MethodPost)
		return
	}
	dropBody(w, req)
	wanted := wish{from: sourceOfText(req.RemoteAddr), bound: -1, identify: acceptsJSON(req.Header)}
	if wanted.identify {
		bound, ok := boundIn(req.URL.RawQuery)
		if !ok {
			http.Error(w, "the bound is no number from 0", http.StatusBadRequest)
			return
		}
		wanted.bound = bound
	}
	switch o := r.reserve(wanted); o.verdict {
	case tooMany:
		seconds := max(math.Ceil(o.wait.Seconds()), 1)
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		http.Error(w, "too many reservations", http.StatusTooManyRequests)
	case notServing:
		refusePhase(w, req, r.phase())
	case reserved, boundReached:
		if !wanted.identify {
			w.WriteHeader(http.StatusOK)
			return
		}
		answerReserve(w, req, &wanted, &o)
	}
}

// answerReserve answers a client that can read it.
func answerReserve(w http.ResponseWriter, req *http.Request, wanted *wish, o *outcome) {
	answer := extension.Answer{Granted: o.verdict == reserved, ID: o.id, Count: o.count}
	if wanted.bound >= 0 {
		answer.Bound = &wanted.bound
	}
	body, err := json.Marshal(answer)
	if err != nil { // unreachable for this type, and never to be silent about
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = jsonType
	write(w, req, body)
}

// acceptsJSON says that the client names JSON among what it takes. What takes everything is a stock client.
func acceptsJSON(header http.Header) bool {
	for _, value := range header.Values("Accept") {
		for one := range strings.SplitSeq(value, ",") {
			kind, parameters, err := mime.ParseMediaType(one)
			if err == nil && kind == extension.JSON && !isZero(parameters["q"]) {
				return true
			}
		}
	}
	return false
}

// isZero says that a weight is 0, which means "not this one" (RFC 9110 section 12.4.2).
func isZero(weight string) bool {
	q, err := strconv.ParseFloat(weight, 64)
	return err == nil && q == 0
}

// boundIn returns the bound of a query; -1 where it has none, and false where that is no number.
func boundIn(query string) (bound int, ok bool) {
	values, err := url.ParseQuery(query)
	if err != nil || len(values[extension.Bound]) > 1 {
		return 0, false
	}
	if !values.Has(extension.Bound) {
		return -1, true
	}
	parsed, err := strconv.ParseUint(values.Get(extension.Bound), 10, 32)
	return int(parsed), err == nil && parsed <= extension.MaxBound
}

// releaseID returns the id of a path that a reservation is released by.
func releaseID(path string) (id string, ok bool) {
	id, ok = strings.CutPrefix(path, reservePath+"/")
	return id, ok && id != ""
}

// serveRelease gives a reservation up. Whoever asks learns nothing of whether there was one: an id is the only proof that a
// reservation is one's own, and a wrong one must not become a right one by trying.
func (r *Registry) serveRelease(w http.ResponseWriter, req *http.Request, id string) {
	if req.Method != http.MethodDelete {
		refuseMethod(w, http.MethodDelete)
		return
	}
	if extension.ValidID(id) {
		r.release(id)
	}
	w.WriteHeader(http.StatusNoContent)
}
