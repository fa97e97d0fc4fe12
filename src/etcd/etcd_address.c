#include "etcd/etcd_address.h"

#include "client/http_fetch.h"
#include "etcd/etcd_message.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char scheme[] = "etcd://";

bool tt_etcd_address_is(const char *spec) { return strncmp(spec, scheme, sizeof(scheme) - 1) == 0; }

static bool is_name(const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
            return false;
    return length > 0 && length < TT_ETCD_NAME_BYTES;
}

enum tt_err tt_etcd_address_parse(const char *spec, struct tt_etcd_address *out_address,
                                  struct tt_error *why) {
    const char *at = spec + sizeof(scheme) - 1, *slash = strchr(at, '/');
    if (!tt_etcd_address_is(spec) || !slash || slash == at || !is_name(slash + 1))
        return tt_fail(TT_ERR_INVALID, why,
                       "'%.100s' is not etcd://HOST:PORT[,HOST:PORT...]/NAME; a name has letters, "
                       "digits, '-', '_' and '.'",
                       spec);
    enum { ETCD_TCP_PORT = 2379 };
    *out_address = (struct tt_etcd_address){.server_count = 0};
    snprintf(out_address->name, sizeof(out_address->name), "%s", slash + 1);
    while (at < slash) {
        size_t length = strcspn(at, ",/");
        char url[300];
        if (out_address->server_count == TT_ETCD_MAX_SERVERS || length >= sizeof(url))
            return tt_fail(TT_ERR_INVALID, why, "'%.100s' has more than %d servers, or a long name",
                           spec, TT_ETCD_MAX_SERVERS);
        snprintf(url, sizeof(url), "%.*s", (int)length, at);
        enum tt_err err = tt_http_address_parse(
            url, ETCD_TCP_PORT, &out_address->servers[out_address->server_count], why);
        if (err)
            return err;
        out_address->server_count++;
        at += length + 1;
    }
    return TT_OK;
}

struct taken {
    struct tt_text *nodes, *plan;
};

static void take_entry(void *context, const struct tt_etcd_entry *entry) {
    struct taken *self = context;
    if (entry->key == TT_ETCD_NODES)
        tt_text_puts(self->nodes, entry->value);
    else if (entry->key == TT_ETCD_PLACEMENT)
        tt_text_puts(self->plan, entry->value);
}

enum tt_err tt_etcd_read_nodes(const struct tt_etcd_address *address, int64_t give_up_ns,
                               struct tt_text *out_nodes, struct tt_text *out_plan,
                               struct tt_error *why) {
    struct taken taken = {.nodes = out_nodes, .plan = out_plan};
    struct tt_text request, body;
    tt_text_init(&request);
    tt_etcd_write_list(address->name, &request);
    enum tt_err err = TT_ERR_UNAVAILABLE;
    for (int32_t i = 0; err && i < address->server_count; i++)
        err = tt_http_fetch(&address->servers[i], "/v3/kv/range", tt_text_string(&request),
                            give_up_ns, &body, why);
    tt_text_fini(&request);
    if (err)
        return err;
    int64_t revision;
    tt_text_clear(out_nodes);
    tt_text_clear(out_plan);
    err = tt_etcd_read_list(address->name, tt_text_string(&body), body.length, take_entry, &taken,
                            &revision, why);
    tt_text_fini(&body);
    if (!err && out_nodes->length == 0)
        err = tt_fail(TT_ERR_NOT_FOUND, why,
                      "etcd has no cluster '%s': its description belongs at the key "
                      "tutti/%s/nodes",
                      address->name, address->name);
    return err;
}
