#!/bin/sh
# SPDX-FileCopyrightText: The Evenkeel authors
# SPDX-License-Identifier: MIT
#
# Makes clientspb, hostpb and adminpb from the .proto files. Needs protoc (Debian: protobuf-compiler, libprotobuf-dev) and go; the
# plugins are built at the versions below. The same versions give the same bytes: run it twice and git shows no change.
set -eu
cd "$(dirname "$0")"

protoc_version='libprotoc 3.21.12'
gen_go='google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12'
gen_grpc='google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2'
module='github.com/evenkeel-go/evenkeel/contract'

found=$(protoc --version)
if [ "$found" != "$protoc_version" ]; then
	echo "generate: found $found, want $protoc_version" >&2
	exit 1
fi

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN="$bin" GOFLAGS= go install "$gen_go"
GOBIN="$bin" GOFLAGS= go install "$gen_grpc"

PATH="$bin:$PATH" protoc --proto_path=proto \
	--go_out=. --go_opt=module="$module" \
	--go-grpc_out=. --go-grpc_opt=module="$module" \
	clients.proto host.proto admin.proto

# The generated code would register in the global protobuf registry, where another Chronicle client linked into the same
# program has the same names, and the program would panic at start. It gets our own registry instead (package registry).
for file in clientspb/clients.pb.go hostpb/host.pb.go adminpb/admin.pb.go; do
	sed -i \
		-e "s|^\t\tFile: protoimpl.DescBuilder{\$|&\n\t\t\tFileRegistry: registry.Files,|" \
		-e "s|^\t\tGoTypes: .*|\t\tTypeRegistry: registry.Types,\n&|" \
		-e "s|^import (\$|&\n\tregistry \"$module/internal/registry\"|" \
		"$file"
	for want in 'FileRegistry: registry.Files,' 'TypeRegistry: registry.Types,' 'registry "'"$module"'/internal/registry"'; do
		if [ "$(grep -cF "$want" "$file")" != 1 ]; then
			echo "generate: $file does not have exactly one line $want: has the generator changed?" >&2
			exit 1
		fi
	done
	gofmt -w "$file"
done
