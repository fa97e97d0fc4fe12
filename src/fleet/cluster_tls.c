#include "fleet/cluster_tls.h"

enum tt_err tt_cluster_tls_init(struct tt_cluster_tls *self,
                                const struct tt_cluster_tls_files *files, struct tt_error *why) {
    *self = (struct tt_cluster_tls){.dialer = NULL};
    if (!files->certificate && !files->key && !files->ca)
        return TT_OK;
    if (!files->certificate || !files->key || !files->ca)
        return tt_fail(TT_ERR_INVALID, why,
                       "--cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca go together");
    const struct tt_tls_files both = {
        .certificate = files->certificate, .key = files->key, .client_ca = files->ca};
    enum tt_err err = tt_tls_peer_new(&both, true, &self->dialer, why);
    if (!err)
        err = tt_tls_peer_new(&both, false, &self->listener, why);
    if (err)
        tt_cluster_tls_fini(self);
    return err;
}

void tt_cluster_tls_fini(struct tt_cluster_tls *self) {
    tt_tls_context_unref(self->dialer);
    tt_tls_context_unref(self->listener);
    *self = (struct tt_cluster_tls){.dialer = NULL};
}
