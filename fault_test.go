// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import "testing"

// Each of these is one fault on real sockets and what comes of it in bounded time. They mostly wait, so they run at the
// same time, whatever the number of processors.
func TestFaults(t *testing.T) {
	t.Parallel()
	var all together
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"a candidate that cannot serve is left for the next one", testACandidateThatCannotServeIsLeftForTheNextOne},
		{"an older contract is no fault", testAnOlderContractIsNoFault},
		{"a contract is compared with that of an embedding server", testAContractIsComparedWithThatOfAnEmbeddingServer},
		{"a silent candidate holds up one round", testASilentCandidateHoldsUpOneRound},
		{"a server without a count ranks last", testAServerWithoutACountRanksLast},
		{"a slow count is a count", testASlowCountIsACount},
		{"a reserve that fails or hangs costs two seconds at most", testAReserveThatFailsOrHangsCostsTwoSecondsAtMost},
		{"clients that share a prober share its connections", testClientsThatShareAProberShareItsConnections},
		{"a server that lies and refuses is tried once by each client", testAServerThatLiesAndRefusesIsTriedOnceByEachClient},
		{"GOAWAY every half second fails no unary call", testGoAwayEveryHalfSecondFailsNoUnaryCall},
		{"more streams than a server allows on a connection", testMoreStreamsThanAServerAllowsOnAConnection},
		{"a drain moves the client before it lets go", testADrainMovesTheClientBeforeItLetsGo},
		{"close while calls on a left session go on", testCloseWhileCallsOnALeftSessionGoOn},
		{"a failing name server leaves the last good servers", testAFailingNameServerLeavesTheLastGoodServers},
		{"a truncated answer during a reconnect is no fault", testATruncatedAnswerDuringAReconnectIsNoFault},
		{"a changed set of servers is used on reconnect", testAChangedSetOfServersIsUsedOnReconnect},
		{"a session that is spoiled is replaced in time", testASessionThatIsSpoiledIsReplacedInTime},
		{"a client that is forgotten without notice stays ready", testAClientThatIsForgottenWithoutNoticeStaysReady},
		{"a client that is evicted is told and comes back", testAClientThatIsEvictedIsToldAndComesBack},
		{"a slow network is no fault", testASlowNetworkIsNoFault},
	} {
		all.group(t, tt.name, tt.test)
	}
	all.wait()
}
