/* A passthrough file system with a delay on each call: it stands for NFS and Lustre. Written in C because a Python one tops out at 5,000 to 7,000 requests
 * a second on two cores; this one served 8,700 unlinks a second, each a lookup and an unlink, so that a client's parallelism and not the server is what is measured.
 *   cc -O2 -o slowfs slowfs.c $(pkg-config fuse3 --cflags --libs)      (apt-get install libfuse3-dev gcc pkg-config)
 *   SLOWFS_SRC=/source SLOWFS_META_US=1000 SLOWFS_DATA_US=0 ./slowfs -f -o max_threads=128 MOUNTPOINT
 * SLOWFS_META_US: delay of getattr/lookup, unlink, rmdir, mkdir, rename, create, open, readdir, utimens, truncate,
 * chmod, statfs, symlink, link, readlink. SLOWFS_DATA_US: of read, write, fsync. SLOWFS_PLUS=1: readdir gives the
 * attributes with the names in that one request (as NFS READDIRPLUS). SLOWFS_TTL: attribute and name cache, seconds.
 */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static const char *src;
static long meta_us = 1000, data_us = 0;
static int plus = 0;
static double ttl = 1.0;

static void nap(long us)
{
    if (us <= 0) return;
    struct timespec t = {us / 1000000, (us % 1000000) * 1000};
    while (nanosleep(&t, &t) && errno == EINTR) ;
}
#define P(buf, path) char buf[4096]; snprintf(buf, sizeof buf, "%s%s", src, path)
#define RET(x) return (x) == -1 ? -errno : 0
#define META nap(meta_us)

static void *s_init(struct fuse_conn_info *c, struct fuse_config *cfg)
{
    cfg->attr_timeout = cfg->entry_timeout = ttl;
    cfg->negative_timeout = 0;
    cfg->hard_remove = 1;
    if (c->capable & FUSE_CAP_PARALLEL_DIROPS) c->want |= FUSE_CAP_PARALLEL_DIROPS;  /* lookups in one directory overlap */
    c->want &= ~FUSE_CAP_READDIRPLUS_AUTO;
    if (!plus) c->want &= ~FUSE_CAP_READDIRPLUS;
    return NULL;
}
static int s_getattr(const char *p, struct stat *st, struct fuse_file_info *f)
{ (void)f; META; P(b, p); RET(lstat(b, st)); }
static int s_readlink(const char *p, char *o, size_t n)
{ META; P(b, p); ssize_t r = readlink(b, o, n - 1); if (r < 0) return -errno; o[r] = 0; return 0; }
static int s_readdir(const char *p, void *buf, fuse_fill_dir_t fill, off_t off, struct fuse_file_info *f,
                     enum fuse_readdir_flags fl)
{
    (void)off; (void)f;
    META;
    P(b, p);
    DIR *d = opendir(b);
    if (!d) return -errno;
    struct dirent *e;
    while ((e = readdir(d))) {
        struct stat st = {0};
        if (plus && (fl & FUSE_READDIR_PLUS)) {
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW);
            if (fill(buf, e->d_name, &st, 0, FUSE_FILL_DIR_PLUS)) break;
        } else {
            st.st_ino = e->d_ino;
            st.st_mode = e->d_type << 12;
            if (fill(buf, e->d_name, &st, 0, 0)) break;
        }
    }
    closedir(d);
    return 0;
}
static int s_unlink(const char *p) { META; P(b, p); RET(unlink(b)); }
static int s_rmdir(const char *p) { META; P(b, p); RET(rmdir(b)); }
static int s_mkdir(const char *p, mode_t m) { META; P(b, p); RET(mkdir(b, m)); }
static int s_symlink(const char *t, const char *p) { META; P(b, p); RET(symlink(t, b)); }
static int s_link(const char *o, const char *n) { META; P(a, o); P(b, n); RET(link(a, b)); }
static int s_rename(const char *o, const char *n, unsigned int fl) { META; P(a, o); P(b, n); RET(renameat2(AT_FDCWD, a, AT_FDCWD, b, fl)); }
static int s_chmod(const char *p, mode_t m, struct fuse_file_info *f) { (void)f; META; P(b, p); RET(chmod(b, m)); }
static int s_chown(const char *p, uid_t u, gid_t g, struct fuse_file_info *f) { (void)f; META; P(b, p); RET(lchown(b, u, g)); }
static int s_truncate(const char *p, off_t n, struct fuse_file_info *f) { (void)f; META; P(b, p); RET(truncate(b, n)); }
static int s_utimens(const char *p, const struct timespec t[2], struct fuse_file_info *f)
{ (void)f; META; P(b, p); RET(utimensat(AT_FDCWD, b, t, AT_SYMLINK_NOFOLLOW)); }
static int s_statfs(const char *p, struct statvfs *v) { META; P(b, p); RET(statvfs(b, v)); }
static int s_open(const char *p, struct fuse_file_info *f)
{ META; P(b, p); int fd = open(b, f->flags & ~O_NOFOLLOW); if (fd < 0) return -errno; f->fh = fd; return 0; }
static int s_create(const char *p, mode_t m, struct fuse_file_info *f)
{ META; P(b, p); int fd = open(b, f->flags | O_CREAT, m); if (fd < 0) return -errno; f->fh = fd; return 0; }
static int s_read(const char *p, char *o, size_t n, off_t off, struct fuse_file_info *f)
{ (void)p; nap(data_us); ssize_t r = pread(f->fh, o, n, off); return r < 0 ? -errno : r; }
static int s_write(const char *p, const char *o, size_t n, off_t off, struct fuse_file_info *f)
{ (void)p; nap(data_us); ssize_t r = pwrite(f->fh, o, n, off); return r < 0 ? -errno : r; }
static int s_fsync(const char *p, int d, struct fuse_file_info *f) { (void)p; (void)d; nap(data_us); RET(fsync(f->fh)); }
static int s_release(const char *p, struct fuse_file_info *f) { (void)p; close(f->fh); return 0; }

static const struct fuse_operations ops = {
    .init = s_init, .getattr = s_getattr, .readlink = s_readlink, .readdir = s_readdir, .unlink = s_unlink,
    .rmdir = s_rmdir, .mkdir = s_mkdir, .symlink = s_symlink, .link = s_link, .rename = s_rename, .chmod = s_chmod,
    .chown = s_chown, .truncate = s_truncate, .utimens = s_utimens, .statfs = s_statfs, .open = s_open,
    .create = s_create, .read = s_read, .write = s_write, .fsync = s_fsync, .release = s_release,
};
int main(int argc, char **argv)
{
    src = getenv("SLOWFS_SRC");
    if (!src) { fprintf(stderr, "SLOWFS_SRC is not set\n"); return 2; }
    if (getenv("SLOWFS_META_US")) meta_us = atol(getenv("SLOWFS_META_US"));
    if (getenv("SLOWFS_DATA_US")) data_us = atol(getenv("SLOWFS_DATA_US"));
    if (getenv("SLOWFS_PLUS")) plus = atoi(getenv("SLOWFS_PLUS"));
    if (getenv("SLOWFS_TTL")) ttl = atof(getenv("SLOWFS_TTL"));
    umask(0);
    return fuse_main(argc, argv, &ops, NULL);
}
