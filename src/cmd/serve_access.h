/* Access to `tutti serve`: TLS, tokens, and the admin interface with a thread of its own.
 *
 * Life: _check() before models are loaded; _open() reads certificates and tokens and begins to
 * watch their files; _open_admin() after the models are there; _close() after every listener. */
#ifndef TT_CMD_SERVE_ACCESS_H
#define TT_CMD_SERVE_ACCESS_H

#include "cmd/serve_address.h"
#include "net/access/access_control.h"
#include "net/access/watched_files.h"
#include "net/http/listener.h"
#include "net/tls/tls_context.h"

struct tt_serve_access_flags {
    const char *tls_cert, *tls_key, *tls_client_ca; /* NULL: not given */
    const char *tokens, *admin;
    bool insecure;
};

struct tt_serve_access {
    struct tt_serve_access_flags flags;
    struct tt_tls_server tls;
    bool has_tls;
    struct tt_access_control control;
    struct tt_watched_files files;
    struct tt_serve_address admin_address;
    struct tt_listener *admin; /* NULL: none */
    pthread_t admin_thread;
};

/* Whether the flags go together, and whether the server may listen on `host` and, where it is not
 * NULL, on the live page's `dashboard`. INVALID, IO; the message says what to give. */
TT_MUST_CHECK enum tt_err tt_serve_access_check(const struct tt_serve_access_flags *flags,
                                                const char *host, const char *dashboard,
                                                struct tt_error *why);
/* `flags` are copied; their strings and `log` are borrowed until close. Errors: those of
 * tt_tls_server_init() and tt_access_control_init(). */
TT_MUST_CHECK enum tt_err tt_serve_access_open(struct tt_serve_access *self,
                                               const struct tt_serve_access_flags *flags,
                                               struct tt_log *log, struct tt_error *why);
/* What listeners get; NULL: without TLS. */
struct tt_tls_server *tt_serve_access_tls(struct tt_serve_access *self);
/* Opens the admin interface, if there is one; `like`: version, log, limits, TLS. IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serve_access_open_admin(struct tt_serve_access *self,
                                                     struct tt_serving *serving,
                                                     const struct tt_listener_options *like,
                                                     struct tt_error *why);
/* Requests under way are cut off. Does nothing without an admin interface. */
void tt_serve_access_close_admin(struct tt_serve_access *self);
/* Reads certificates and tokens again soon; also from a signal handler. */
void tt_serve_access_reload(const struct tt_serve_access *self);
void tt_serve_access_close(struct tt_serve_access *self);

#endif
