#!/bin/sh
# A machine of its own with systemd as its first process, in namespaces that `unshare` has made. It sees this
# machine's files, and writes to memory: nothing is left of it but the empty control groups GROUPS.
#   machine.sh GROUPS BASE UNIT TENURE
set -eu
groups=$1 base=$2 unit=$3 tenure=$4 root=$2/root

# systemd has what is below its control group, and what is beside it has to be left alone.
if [ "${inside:-no}" = no ]; then
    for group in $groups; do
        mkdir "$group"
        echo 0 > "$group/cgroup.procs"
    done
    exec unshare --cgroup env inside=yes sh "$0" "$@"
fi

mount --make-rprivate /
mount -t tmpfs tmpfs "$base"
mkdir "$base/upper" "$base/work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" overlay "$root"

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
for folder in run tmp dev; do
    mount -t tmpfs tmpfs "$root/$folder"
done
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts" "$root/dev/mqueue" "$root/dev/hugepages"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

touch "$root/usr/bin/tenure"
mount --bind "$tenure" "$root/usr/bin/tenure"
mkdir -p "$root/etc/tenure" "$root/etc/systemd/system/tenure.service.d"
printf '[serve]\n' > "$root/etc/tenure/tenure.toml"
cp "$unit" "$root/etc/systemd/system/tenure.service"
# Nobody waits half a minute here.
printf '[Service]\nWatchdogSec=1\n' > "$root/etc/systemd/system/tenure.service.d/test.conf"
ip link set lo up

mkdir -p "$root/old"
cd "$root"
pivot_root . old
umount -l /old
exec env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin container=test /lib/systemd/systemd --system --unit=basic.target
