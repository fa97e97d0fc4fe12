#include "cmd/serve_access.h"

#include "base/log/log.h"
#include "cmd/serve_telemetry.h"
#include "net/sockets/socket_server.h"

#include <string.h>

enum { ADMIN_CONNECTIONS = 64 };

/* --- flags --- */

static enum tt_err check_open(const struct tt_serve_access_flags *flags, const char *flag,
                              const char *host, struct tt_error *why) {
    bool is_guarded = flags->tls_cert && (flags->tokens || flags->tls_client_ca);
    if (flags->insecure || is_guarded || tt_socket_is_loopback(host))
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "--%s %s lets other machines in: give --tls-cert FILE --tls-key FILE and "
                   "--tokens FILE (or --tls-client-ca FILE), or --insecure if every client that "
                   "reaches the port may use the server",
                   flag, host);
}

static enum tt_err check_dashboard(const struct tt_serve_access_flags *flags, const char *text,
                                   struct tt_error *why) {
    struct tt_serve_address address;
    enum tt_err err = tt_serve_address_read("dashboard", text, false, &address, why);
    return err ? err : check_open(flags, "dashboard", address.host, why);
}

static enum tt_err check_admin(const struct tt_serve_access_flags *flags, struct tt_error *why) {
    struct tt_serve_address address;
    enum tt_err err = tt_serve_address_read("admin", flags->admin, true, &address, why);
    err = err ? err : check_open(flags, "admin", address.host, why);
    if (err)
        return err;
    err = tt_socket_server_check(address.host, address.tcp_port, why);
    return err ? tt_fail_in(err, why, "--admin") : TT_OK;
}

enum tt_err tt_serve_access_check(const struct tt_serve_access_flags *flags, const char *host,
                                  const char *dashboard, struct tt_error *why) {
    if (!flags->tls_cert != !flags->tls_key)
        return tt_fail(TT_ERR_INVALID, why, "--tls-cert and --tls-key need each other");
    if (flags->tls_client_ca && !flags->tls_cert)
        return tt_fail(TT_ERR_INVALID, why, "--tls-client-ca needs --tls-cert and --tls-key");
    enum tt_err err = check_open(flags, "http-host", host, why);
    if (!err && dashboard)
        err = check_dashboard(flags, dashboard, why);
    if (!err && flags->admin)
        err = check_admin(flags, why);
    return err;
}

/* --- certificates and tokens --- */

static void reload_tls(void *context) { tt_tls_server_reload(context); }
static void reload_tokens(void *context) { tt_access_control_reload(context); }

enum tt_err tt_serve_access_open(struct tt_serve_access *self,
                                 const struct tt_serve_access_flags *flags, struct tt_log *log,
                                 struct tt_error *why) {
    const struct tt_tls_files files = {
        .certificate = flags->tls_cert, .key = flags->tls_key, .client_ca = flags->tls_client_ca};
    const char *const tls_paths[TT_WATCHED_PATHS] = {files.certificate, files.key, files.client_ca};
    const char *const token_paths[TT_WATCHED_PATHS] = {flags->tokens};
    memset(self, 0, sizeof(*self));
    self->flags = *flags;
    tt_watched_files_init(&self->files);
    if (flags->tls_cert)
        tt_watched_files_add(&self->files, tls_paths, reload_tls, &self->tls);
    if (flags->tokens)
        tt_watched_files_add(&self->files, token_paths, reload_tokens, &self->control);
    enum tt_err err =
        tt_access_control_init(&self->control, flags->tokens, flags->admin != NULL, log, why);
    if (err)
        return err;
    if (flags->tls_cert)
        err = tt_tls_server_init(&self->tls, &files, log, why);
    self->has_tls = !err && flags->tls_cert;
    if (!err)
        err = tt_watched_files_start(&self->files, why);
    if (err)
        tt_serve_access_close(self);
    return err;
}

struct tt_tls_server *tt_serve_access_tls(struct tt_serve_access *self) {
    return self->has_tls ? &self->tls : NULL;
}

void tt_serve_access_reload(const struct tt_serve_access *self) {
    tt_watched_files_wake(&self->files);
}

void tt_serve_access_close(struct tt_serve_access *self) {
    tt_watched_files_stop(&self->files);
    if (self->has_tls)
        tt_tls_server_fini(&self->tls);
    tt_access_control_fini(&self->control);
}

/* --- the admin interface --- */

static void *run(void *context) {
    tt_listener_run(context);
    return NULL;
}

enum tt_err tt_serve_access_open_admin(struct tt_serve_access *self, struct tt_serving *serving,
                                       const struct tt_listener_options *like,
                                       struct tt_error *why) {
    struct tt_serve_address *address = &self->admin_address;
    struct tt_listener_options options = *like;
    if (!self->flags.admin)
        return TT_OK;
    enum tt_err err = tt_serve_address_read("admin", self->flags.admin, true, address, why);
    options.host = address->host;
    options.tcp_port = address->tcp_port;
    options.metrics_tcp_port = 0;
    options.is_admin = true;
    options.threads = 1;
    options.busy_poll_us = 0;
    options.quotas = NULL;    /* it has its own, so that others cannot fill it */
    options.drain_ms = 0;     /* it is closed after the other port's drain */
    options.addresses = NULL; /* the operator gets in, whatever clients hold */
    options.first_writer = tt_serve_writer(TT_SERVE_WRITER_ADMIN, like->threads);
    if (options.limits.connections > ADMIN_CONNECTIONS)
        options.limits.connections = ADMIN_CONNECTIONS;
    if (!err)
        err = tt_listener_open(serving, &options, &self->admin, why);
    if (err)
        return tt_fail_in(err, why, "--admin");
    int failed = pthread_create(&self->admin_thread, NULL, run, self->admin);
    if (failed) {
        tt_listener_close(self->admin);
        self->admin = NULL;
        return tt_fail(TT_ERR_IO, why, "cannot start the thread of the admin interface: %s",
                       strerror(failed));
    }
    if (tt_socket_is_local(address->host))
        tt_log_write(like->log, TT_LOG_INFO, NULL, "the admin interface is %s", address->host);
    else
        tt_log_write(like->log, TT_LOG_INFO, NULL, "the admin interface is %s:%d",
                     tt_serve_url_host(address->host).text, tt_listener_tcp_port(self->admin));
    return TT_OK;
}

void tt_serve_access_close_admin(struct tt_serve_access *self) {
    if (!self->admin)
        return;
    tt_listener_stop(self->admin, 0);
    pthread_join(self->admin_thread, NULL);
    tt_listener_close(self->admin);
    self->admin = NULL;
}
