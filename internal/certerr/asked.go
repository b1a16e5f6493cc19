// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certerr

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Asked remembers whether a server asked for a client certificate of which there was none. With TLS 1.2 it refuses the
// handshake then, and says no word of certificates. Watch makes one.
type Asked struct{ inVain atomic.Bool }

// handshakeFailure is the alert of a server that misses something (RFC 5246 section 7.2.2).
const handshakeFailure = tls.AlertError(40)

// Watch returns the configuration of one connection with what notices that. The configuration that is given is not changed.
func Watch(config *tls.Config) (*tls.Config, *Asked) {
	asked := &Asked{}
	watched := config.Clone()
	watched.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		certificate, err := choose(config, request)
		if err == nil && certificate != nil && len(certificate.Certificate) == 0 {
			asked.inVain.Store(true)
		}
		return certificate, err
	}
	return watched, asked
}

// choose is what package tls does: it gives the first certificate that the server would take.
func choose(config *tls.Config, request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if config.GetClientCertificate != nil {
		return config.GetClientCertificate(request)
	}
	for i := range config.Certificates {
		if request.SupportsCertificate(&config.Certificates[i]) == nil {
			return &config.Certificates[i], nil
		}
	}
	return &tls.Certificate{}, nil
}

// Explain is the Explain of the package for the error of the handshake.
func (a *Asked) Explain(err error, name string) error {
	remote, ok := errors.AsType[*net.OpError](err)
	if ok && a.inVain.Load() && remote.Op == "remote error" && remote.Err != nil && remote.Err.Error() == handshakeFailure.Error() {
		return &Error{text: wantsOne, cause: fmt.Errorf("%w: %w", ErrClient, err)}
	}
	return Explain(err, name)
}
