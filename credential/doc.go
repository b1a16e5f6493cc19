// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package credential gives gRPC calls what proves who makes them: a bearer token, which is asked for, cached and renewed,
// or an API key.
//
//	source, err := credential.NewClientCredentials(credential.ClientCredentialsConfig{
//		ClientID: "orders", ClientSecret: connstring.NewSecret(secret),
//	})
//	bearer := source.At(credential.Place{
//		URL:    "https://node-1.example:35000/connect/token",
//		Client: credential.NewHTTPClient(credential.HTTPConfig{TLS: config}),
//	})
//	defer bearer.Close()
//	conn, err := grpc.NewClient(target, append(bearer.DialOptions(), grpc.WithTransportCredentials(creds))...)
//
// A Bearer serves the calls to one server. Bearers of one source hand the latest token on to each other, so that a client
// that moves to another server keeps its token for as long as servers take it.
//
// # Configuration
//
// ClientCredentialsConfig says who the client is. Place says where tokens are asked for and over which http.Client, so that
// TLS, addresses and proxies are the caller's. A program with an oauth2.TokenSource of its own uses NewTokenSource.
//
// # Renewal
//
// A token is renewed when a call finds it due: at its expiry less 60 s or a quarter of its life, whichever is less, less
// a random 0 to 10 % of its life. The call goes on with the token there is. Only when there is none do calls wait, all of
// them for one request, which has 5 s. A failed request is repeated after 5 s as long as the token serves, and else after
// 1 s. Nothing runs between calls.
//
// A token that a server refuses is renewed out of turn, no more than once for each token and no more than once in 3 s at
// each server, nor in the 5 s after a request that failed. The call that was refused waits for that, as it does for
// any request, and a unary one is made once more. A stream is not; it ends when there is another token, which the next one
// has. Other calls go on with the token there is: it may have been refused for a reason that they do not share.
//
// # Errors
//
// Asking for a token fails with a *TokenError. It names the place and what went wrong, and holds neither a secret nor
// anything that the other side sent, save an error code of RFC 6749 section 5.2. errors.Is finds ErrRefused in it when the
// client was refused. A call for which there is no token fails with a gRPC status that has it as its cause.
//
// # Secrets
//
// No value of this package shows a secret or a token, whichever way it is printed or encoded. A token goes to the server
// in metadata, and there only over TLS unless the Place says otherwise.
//
// # Concurrency
//
// All types are safe for concurrent use.
//
// # Specification
//
// The client credentials grant is RFC 6749 section 4.4, with the credentials in the body of the request (section 2.3.1);
// the token goes as RFC 6750 section 2.1 has it. API keys are a convention of Chronicle clients: the metadata api-key. No
// stock server that is known looks at it.
package credential
