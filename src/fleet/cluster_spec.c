#include "fleet/cluster_spec.h"

#include "base/clock.h"
#include "base/loopback.h"
#include "etcd/etcd_address.h"

#include <netdb.h>
#include <string.h>

#define ETCD_NS (5 * TT_S)

/* Without a key only this machine may take part. */
static enum tt_err check_local(const struct tt_cluster_file *file, struct tt_error *why) {
    for (int32_t i = 0; i < file->count; i++) {
        const struct tt_cluster_place *place = &file->places[i];
        struct sockaddr_storage address;
        socklen_t bytes;
        enum tt_err err = tt_cluster_place_resolve(place, &address, &bytes, why);
        if (err)
            return err;
        if (!tt_address_is_loopback((const struct sockaddr *)&address))
            return tt_fail(TT_ERR_INVALID, why,
                           "node %s is at %s, beyond this machine: --cluster-key FILE is required",
                           place->name, place->host);
    }
    return TT_OK;
}

static enum tt_err read_description(const char *cluster, const struct tt_etcd_tls_files *etcd,
                                    struct tt_cluster_file *out_file, struct tt_error *why) {
    static const char scheme[] = "static:";
    if (!tt_etcd_address_is(cluster) && (etcd->ca || etcd->certificate || etcd->key))
        return tt_fail(TT_ERR_INVALID, why,
                       "--etcd-ca, --etcd-cert and --etcd-key need etcds://HOST:PORT/NAME");
    if (strncmp(cluster, scheme, sizeof(scheme) - 1) == 0 && cluster[sizeof(scheme) - 1])
        return tt_cluster_file_read(cluster + sizeof(scheme) - 1, out_file, why);
    if (!tt_etcd_address_is(cluster))
        return tt_fail(TT_ERR_INVALID, why,
                       "'%.100s' describes no cluster; it would be static:FILE, or "
                       "etcd://HOST:PORT/NAME",
                       cluster);
    struct tt_etcd_address address;
    struct tt_text nodes, plan;
    enum tt_err err = tt_etcd_address_parse(cluster, etcd, &address, why);
    if (err)
        return err;
    tt_text_init(&nodes);
    tt_text_init(&plan);
    err = tt_etcd_read_nodes(&address, ETCD_NS, &nodes, &plan, why);
    tt_etcd_address_fini(&address);
    if (!err)
        err = tt_cluster_file_parse(cluster, tt_text_string(&nodes), out_file, why);
    if (!err && plan.length > 0 && !(out_file->plan = strdup(tt_text_string(&plan)))) {
        tt_cluster_file_fini(out_file);
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    tt_text_fini(&plan);
    tt_text_fini(&nodes);
    return err;
}

enum tt_err tt_fleet_describe(const char *cluster, const struct tt_etcd_tls_files *etcd,
                              const char *node, const char *key, struct tt_cluster_file *out_file,
                              struct tt_cluster_key *out_key, uint16_t *out_number,
                              struct tt_error *why) {
    *out_key = (struct tt_cluster_key){.count = 0};
    enum tt_err err = read_description(cluster, etcd, out_file, why);
    if (err)
        return err;
    int32_t number = node ? tt_cluster_file_find(out_file, node) : TT_CLUSTER_NO_NODE;
    if (number < 0)
        err = tt_fail(TT_ERR_NOT_FOUND, why, "%s: there is no node '%.64s'", cluster, node);
    if (!err && key)
        err = tt_cluster_key_read(key, out_key, why);
    if (!err && !key)
        err = check_local(out_file, why);
    if (err)
        tt_cluster_file_fini(out_file);
    else
        *out_number = (uint16_t)number;
    return err;
}
