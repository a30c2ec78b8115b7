#!/usr/bin/env bash
# Writes prelet's image as an OCI layout, the folder of an oci-archive: ociimage.sh FOLDER VERSION ARCH=ROOT..., where
# ROOT is a tar archive of all files of that architecture. The bytes depend only on these, the version and the time of
# the commit. Needs jq.
set -euo pipefail
folder=$(realpath -m "$1") version=$2
shift 2
cd "$(dirname "$0")/.."
created=$(date -u -d "@$(tools/source-date.sh)" +%FT%TZ)

GOOS='' GOARCH='' CGO_ENABLED=0 "${GO:-go}" build -trimpath -buildvcs=false -modfile=tools/oras/go.mod \
	-o bin/oras oras.land/oras/cmd/oras
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

digests=()
for root in "$@"; do
	arch=${root%%=*} file=${root#*=}
	gzip -n9 <"$file" >"$work/root.tar.gz"
	jq -n --arg arch "$arch" --arg created "$created" --arg version "$version" \
		--arg layer "sha256:$(sha256sum <"$file" | cut -d' ' -f1)" '{
			created: $created,
			architecture: $arch,
			os: "linux",
			config: {
				Entrypoint: ["/usr/bin/prelet"],
				Env: ["PATH=/usr/bin"],
				WorkingDir: "/workspace",
				Labels: {
					"org.opencontainers.image.title": "prelet",
					"org.opencontainers.image.version": $version,
					"org.opencontainers.image.source": "https://github.com/prelet/prelet",
					"org.opencontainers.image.licenses": "Apache-2.0"
				}
			},
			rootfs: {type: "layers", diff_ids: [$layer]}
		}' >"$work/config.json"
	digests+=("$(cd "$work" && "$OLDPWD/bin/oras" push --oci-layout "$folder" --format go-template --template '{{.digest}}' \
		--config config.json:application/vnd.oci.image.config.v1+json \
		--annotation "org.opencontainers.image.created=$created" \
		root.tar.gz:application/vnd.oci.image.layer.v1.tar+gzip)")
done

tag=${version//+/-} # a tag has no "+"
bin/oras manifest index create --oci-layout "$folder:$tag" "${digests[@]}" >/dev/null

# The list of images has only that of all architectures, under its names: that of the archive, and the one under which
# containerd imports it. The name localhost is not that of a registry.
jq --arg tag "$tag" '.manifests |= [.[] | select(.annotations["org.opencontainers.image.ref.name"] == $tag) |
	.annotations["io.containerd.image.name"] = "localhost/prelet:" + $tag]' "$folder/index.json" >"$work/index.json"
mv "$work/index.json" "$folder/index.json"
