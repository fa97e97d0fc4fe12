/* The certificates for an etcd over TLS, read again when their files change.
 *
 * Life: _start watches the files that the address was made of (net/access/watched_files.h) -> the
 * thread that talks to etcd _takes what is new, and dials with it -> _stop. Files that are broken
 * are logged, and the former ones stay in force.
 *
 * One thread takes. Implemented in etcd_login.c. */
#ifndef TT_ETCD_ETCD_LOGIN_H
#define TT_ETCD_ETCD_LOGIN_H

#include "base/threads/lock.h"
#include "etcd/etcd_address.h"
#include "net/access/watched_files.h"

struct tt_log;
struct tt_tls_context;

struct tt_etcd_login {
    struct tt_etcd_tls_files files; /* borrowed until stop */
    struct tt_log *log;             /* NULL: nothing is logged */
    struct tt_watched_files watched;
    struct tt_lock lock;
    struct tt_tls_context *fresh; /* NULL: nothing is new */
    bool is_on;
};

/* An address without TLS, or without files, has nothing to watch. Errors: those of
 * tt_etcd_tls_open(); IO. */
TT_MUST_CHECK enum tt_err tt_etcd_login_start(struct tt_etcd_login *self,
                                              const struct tt_etcd_address *address,
                                              struct tt_log *log, struct tt_error *why);
void tt_etcd_login_stop(struct tt_etcd_login *self); /* also of a zero-initialized one */
/* What came since the last call, with one reference; NULL: nothing. */
struct tt_tls_context *tt_etcd_login_take(struct tt_etcd_login *self);

#endif
