#include "etcd/etcd_login.h"

#include "base/log/log.h"
#include "net/tls/tls_context.h"

static void reload(void *context) {
    struct tt_etcd_login *self = context;
    struct tt_tls_context *tls;
    struct tt_error why;
    enum tt_err err = tt_etcd_tls_open(&self->files, &tls, &why);
    if (err && self->log)
        tt_log_write(self->log, TT_LOG_ERROR, NULL,
                     "cluster: the former certificate for etcd stays in force: %s", why.text);
    if (err)
        return;
    tt_lock_take(&self->lock);
    struct tt_tls_context *former = self->fresh;
    self->fresh = tls;
    tt_lock_give(&self->lock);
    tt_tls_context_unref(former);
    if (self->log)
        tt_log_write(self->log, TT_LOG_INFO, NULL, "cluster: certificate for etcd read again: %s",
                     self->files.certificate ? self->files.certificate : self->files.ca);
}

enum tt_err tt_etcd_login_start(struct tt_etcd_login *self, const struct tt_etcd_address *address,
                                struct tt_log *log, struct tt_error *why) {
    *self = (struct tt_etcd_login){.files = address->files, .log = log};
    const char *const paths[TT_WATCHED_PATHS] = {self->files.certificate, self->files.key,
                                                 self->files.ca};
    if (!address->login || (!paths[0] && !paths[2]))
        return TT_OK;
    tt_lock_init(&self->lock);
    tt_watched_files_init(&self->watched);
    self->is_on = true;
    tt_watched_files_add(&self->watched, paths, reload, self);
    /* Read now, since they may have changed after the address was made of them. */
    enum tt_err err = tt_etcd_tls_open(&self->files, &self->fresh, why);
    if (!err)
        err = tt_watched_files_start(&self->watched, why);
    if (err)
        tt_etcd_login_stop(self);
    return err;
}

void tt_etcd_login_stop(struct tt_etcd_login *self) {
    if (self->is_on) {
        tt_watched_files_stop(&self->watched);
        tt_tls_context_unref(self->fresh);
        tt_lock_fini(&self->lock);
    }
    *self = (struct tt_etcd_login){.is_on = false};
}

struct tt_tls_context *tt_etcd_login_take(struct tt_etcd_login *self) {
    if (!self->is_on)
        return NULL;
    tt_lock_take(&self->lock);
    struct tt_tls_context *fresh = self->fresh;
    self->fresh = NULL;
    tt_lock_give(&self->lock);
    return fresh;
}
