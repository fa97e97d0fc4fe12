#include "fleet/live_tls.h"

#include "base/log/log.h"

#include <stdlib.h>

/* What is published. */
struct both {
    struct tt_shared shared;
    struct tt_cluster_tls tls;
};

static void free_both(struct tt_shared *shared) {
    struct both *self = TT_CONTAINER_OF(shared, struct both, shared);
    tt_cluster_tls_fini(&self->tls);
    free(self);
}

static enum tt_err publish(struct tt_live_tls *self, struct tt_error *why) {
    struct both *both = calloc(1, sizeof(*both));
    if (!both)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = tt_cluster_tls_init(&both->tls, &self->files, why);
    if (err) {
        free(both);
        return err;
    }
    tt_shared_init(&both->shared, free_both);
    tt_published_set(&self->both, &both->shared);
    return TT_OK;
}

static void reload(void *context) {
    struct tt_live_tls *self = context;
    struct tt_error why;
    if (publish(self, &why))
        tt_log_write(self->log, TT_LOG_ERROR, NULL,
                     "cluster: the former certificate stays in force: %s", why.text);
    else
        tt_log_write(self->log, TT_LOG_INFO, NULL, "cluster: certificate read again: %s",
                     self->files.certificate);
}

enum tt_err tt_live_tls_init(struct tt_live_tls *self, const struct tt_cluster_tls_files *files,
                             struct tt_log *log, struct tt_error *why) {
    const char *const paths[TT_WATCHED_PATHS] = {files->certificate, files->key, files->ca};
    *self = (struct tt_live_tls){.files = *files, .log = log};
    if (!files->certificate && !files->key && !files->ca)
        return TT_OK;
    tt_published_init(&self->both);
    tt_watched_files_init(&self->watched);
    self->is_on = true;
    tt_watched_files_add(&self->watched, paths, reload, self);
    enum tt_err err = publish(self, why);
    if (!err)
        err = tt_watched_files_start(&self->watched, why);
    if (err)
        tt_live_tls_fini(self);
    return err;
}

void tt_live_tls_fini(struct tt_live_tls *self) {
    if (self->is_on) {
        tt_watched_files_stop(&self->watched);
        tt_published_fini(&self->both);
    }
    *self = (struct tt_live_tls){.is_on = false};
}

const struct tt_cluster_tls *tt_live_tls_get(struct tt_live_tls *self,
                                             struct tt_published_view *view) {
    static const struct tt_cluster_tls none;
    if (!self->is_on)
        return &none;
    struct tt_shared *value = tt_published_get(&self->both, view);
    return &TT_CONTAINER_OF(value, struct both, shared)->tls;
}
