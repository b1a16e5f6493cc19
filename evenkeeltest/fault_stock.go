// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"maps"
	"net/http"
	"strings"
)

// answerProbe answers a request for the registry's paths, as ours or as a stock server does.
func (f *front) answerProbe(w http.ResponseWriter, req *http.Request, fault Fault) {
	if fault.StockHTTP {
		if strings.HasPrefix(req.URL.Path, reservePath+"/") {
			http.NotFound(w, req)
			return
		}
		req = req.Clone(req.Context())
		req.Header.Del("Accept")
		req.URL.RawQuery = ""
		w = &stockWriter{ResponseWriter: w}
	}
	f.real.Registry().Handler().ServeHTTP(w, req)
}

// stockWriter leaves out the headers that a stock server does not send.
type stockWriter struct {
	http.ResponseWriter
	clean bool
}

func (w *stockWriter) WriteHeader(status int) {
	w.cleanUp()
	w.ResponseWriter.WriteHeader(status)
}

func (w *stockWriter) Write(body []byte) (int, error) {
	w.cleanUp()
	return w.ResponseWriter.Write(body)
}

// Unwrap is for http.ResponseController.
func (w *stockWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *stockWriter) cleanUp() {
	if w.clean {
		return
	}
	w.clean = true
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool { return strings.HasPrefix(name, "Evenkeel-") })
}
