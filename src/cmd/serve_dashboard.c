#include "cmd/serve_dashboard.h"

#include "cmd/serve_address.h"
#include "cmd/serve_telemetry.h"

#include "base/log/log.h"
#include "net/http/dashboard_routes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tt_serve_dashboard {
    struct tt_listener *listener;
    struct tt_dashboard_access access;
    struct tt_serve_address address;
    pthread_t thread;
    bool is_running;
};

static void *run(void *context) {
    tt_listener_run(context);
    return NULL;
}

enum tt_err tt_serve_dashboard_check(const char *address, struct tt_error *why) {
    struct tt_serve_address read;
    enum tt_err err = tt_serve_address_read("dashboard", address, false, &read, why);
    const struct tt_listener_options options = {.host = read.host, .tcp_port = read.tcp_port};
    return err ? err : tt_listener_check(&options, why);
}

static void log_address(const struct tt_serve_dashboard *self, struct tt_log *log, bool has_tls) {
    tt_log_write(log, TT_LOG_INFO, NULL, "the live page is http%s://%s:%d/%s", has_tls ? "s" : "",
                 tt_serve_url_host(self->address.host).text, tt_listener_tcp_port(self->listener),
                 self->access.is_admin ? " (it can load and unload models)" : "");
}

enum tt_err tt_serve_dashboard_open(const char *address, bool is_admin, struct tt_serving *serving,
                                    const struct tt_listener_options *like,
                                    struct tt_serve_dashboard **out_dashboard,
                                    struct tt_error *why) {
    struct tt_serve_dashboard *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the live page");
    struct tt_listener_options options = *like;
    enum tt_err err = tt_serve_address_read("dashboard", address, false, &self->address, why);
    self->access = (struct tt_dashboard_access){.host = self->address.host, .is_admin = is_admin};
    options.host = self->address.host;
    options.tcp_port = self->address.tcp_port;
    options.metrics_tcp_port = 0;
    options.threads = 1;
    options.busy_poll_us = 0;
    options.quotas = NULL; /* its connections are few, and not the other port's */
    options.drain_ms = 0;  /* it is closed after the other port's drain */
    options.dashboard = &self->access;
    options.addresses = NULL;
    options.first_writer = tt_serve_writer(TT_SERVE_WRITER_DASHBOARD, like->threads);
    if (options.limits.connections > TT_SERVE_DASHBOARD_CONNECTIONS)
        options.limits.connections = TT_SERVE_DASHBOARD_CONNECTIONS;
    if (!err)
        err = tt_listener_open(serving, &options, &self->listener, why);
    if (!err) {
        int failed = pthread_create(&self->thread, NULL, run, self->listener);
        self->is_running = !failed;
        if (failed)
            err = tt_fail(TT_ERR_IO, why, "cannot start the live page's thread: %s",
                          strerror(failed));
    }
    if (err) {
        tt_serve_dashboard_close(self);
        return err;
    }
    log_address(self, options.log, options.tls != NULL);
    *out_dashboard = self;
    return TT_OK;
}

void tt_serve_dashboard_close(struct tt_serve_dashboard *take_self) {
    if (!take_self)
        return;
    if (take_self->is_running) {
        tt_listener_stop(take_self->listener, 0);
        pthread_join(take_self->thread, NULL);
    }
    tt_listener_close(take_self->listener);
    free(take_self);
}
