#!/bin/sh
# Makes image.tar in the current directory: a static busybox under the names that tests use, as `docker save` would write it.
# NAME is the image's; MEGABYTES that do not compress make it larger.
set -e
NAME=${NAME:-localhost/busybox:1}
mkdir -p layer/bin layer/tmp layer/etc layer/home
cp "$(command -v busybox)" layer/bin/
for name in [ cat dd df echo env false grep head hostname httpd id kill ls mkdir mount nc nslookup printf ps rm sh sleep stat stty tail \
    tar test touch tr true wc wget yes; do
    ln -s busybox "layer/bin/$name"
done
printf 'root:x:0:0:root:/:/bin/sh\nguest:x:1000:1000::/home:/bin/sh\n' > layer/etc/passwd
printf 'root:x:0:\nguest:x:1000:\n' > layer/etc/group
chmod 1777 layer/tmp
if [ "${MEGABYTES:-0}" != 0 ]; then
    head -c "${MEGABYTES}M" /dev/urandom > layer/large
fi
tar -C layer -cf layer.tar .
sum=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["sh"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$sum" > config.json
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$NAME" > manifest.json
tar -cf image.tar config.json manifest.json layer.tar
rm -r layer layer.tar
