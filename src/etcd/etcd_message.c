#include "etcd/etcd_message.h"

#include "base/base64.h"
#include "base/clock.h"
#include "client/http_fetch.h"
#include "client/json_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { GRPC_NOT_FOUND = 5, MAX_VALUE_BYTES = 1 << 20, SHOWN_BYTES = 200 };

/* ---- base64 ---- */

/* A string of the caller's; NULL: it is no base64, or has a NUL, or there is no memory. */
static char *take_base64(const char *text) {
    size_t length = strlen(text);
    if (length % 4 != 0 || length / 2 > MAX_VALUE_BYTES)
        return NULL;
    size_t padding = 0;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        padding++;
    char *bytes = malloc(length / 4 * 3 + 1);
    int count =
        bytes ? EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)text, (int)length)
              : -1;
    if (count < (int)padding) {
        free(bytes);
        return NULL;
    }
    bytes[(size_t)count - padding] = '\0';
    if (strlen(bytes) == (size_t)count - padding)
        return bytes;
    free(bytes);
    return NULL;
}

/* ---- requests ---- */

static void put_key(struct tt_text *out, const char *name, const char *rest) {
    struct tt_text key;
    tt_text_init(&key);
    tt_text_printf(&key, "tutti/%s/%s", name, rest);
    tt_base64_put(out, tt_text_string(&key), key.length);
    tt_text_fini(&key);
}

/* The first key after all that begin with "tutti/NAME/": '0' follows '/'. */
static void put_range(struct tt_text *out, const char *name) {
    struct tt_text end;
    tt_text_init(&end);
    tt_text_printf(&end, "tutti/%s0", name);
    tt_text_puts(out, "\"key\": \"");
    put_key(out, name, "");
    tt_text_puts(out, "\", \"range_end\": \"");
    tt_base64_put(out, tt_text_string(&end), end.length);
    tt_text_puts(out, "\"");
    tt_text_fini(&end);
}

const char *tt_etcd_path(enum tt_coordination_verb verb) {
    static const char *const paths[] = {[TT_COORDINATION_LEASE] = "/v3/lease/grant",
                                        [TT_COORDINATION_JOIN] = "/v3/kv/put",
                                        [TT_COORDINATION_KEEP] = "/v3/lease/keepalive",
                                        [TT_COORDINATION_LEAVE] = "/v3/lease/revoke",
                                        [TT_COORDINATION_SWAP] = "/v3/kv/txn"};
    return paths[verb];
}

static void put_swap(const char *name, const struct tt_coordination_request *request,
                     struct tt_text *out) {
    char epoch[32];
    const char *key = request->key == TT_COORDINATION_PLACEMENT ? "placement" : "primary";
    tt_text_puts(out, "{\"compare\": [{\"key\": \"");
    put_key(out, name, key);
    tt_text_printf(out,
                   "\", \"target\": \"MOD\", \"result\": \"EQUAL\", \"mod_revision\": "
                   "\"%" PRId64 "\"}], \"success\": [{\"request_put\": {\"key\": \"",
                   request->revision);
    put_key(out, name, key);
    tt_text_puts(out, "\", \"value\": \"");
    if (request->key == TT_COORDINATION_PLACEMENT)
        tt_base64_put(out, request->value, strlen(request->value));
    else
        tt_base64_put(out, epoch, tt_text_write_integer((int64_t)request->epoch, epoch));
    tt_text_puts(out, "\"}}], \"failure\": [{\"request_range\": {\"key\": \"");
    put_key(out, name, key);
    tt_text_puts(out, "\"}}]}");
}

void tt_etcd_write(const char *name, const struct tt_coordination_request *request,
                   struct tt_text *out_body) {
    switch (request->verb) {
    case TT_COORDINATION_LEASE: {
        int64_t seconds = (request->ttl_ns + TT_S - 1) / TT_S;
        tt_text_printf(out_body, "{\"TTL\": \"%" PRId64 "\"}", seconds);
        break;
    }
    case TT_COORDINATION_KEEP:
    case TT_COORDINATION_LEAVE:
        tt_text_printf(out_body, "{\"ID\": \"%" PRIu64 "\"}", request->lease);
        break;
    case TT_COORDINATION_JOIN: {
        struct tt_text rest;
        tt_text_init(&rest);
        tt_text_printf(&rest, "members/%s", request->name);
        tt_text_puts(out_body, "{\"key\": \"");
        put_key(out_body, name, tt_text_string(&rest));
        tt_text_puts(out_body, "\", \"value\": \"");
        tt_base64_put(out_body, request->value, strlen(request->value));
        tt_text_printf(out_body, "\", \"lease\": \"%" PRIu64 "\"}", request->lease);
        tt_text_fini(&rest);
        break;
    }
    case TT_COORDINATION_SWAP: put_swap(name, request, out_body); break;
    }
}

void tt_etcd_write_list(const char *name, struct tt_text *out_body) {
    tt_text_puts(out_body, "{");
    put_range(out_body, name);
    tt_text_puts(out_body, "}");
}

void tt_etcd_write_watch(const char *name, int64_t revision, struct tt_text *out_body) {
    tt_text_puts(out_body, "{\"create_request\": {");
    put_range(out_body, name);
    tt_text_printf(out_body, ", \"start_revision\": \"%" PRId64 "\"}}", revision);
}

/* ---- answers ---- */

/* A number, which the gateway writes as a string; absent: 0. False: it is something else. */
static bool take_number(const json_t *object, const char *key, uint64_t *out_number) {
    const json_t *value = json_object_get(object, key);
    *out_number = 0;
    if (!value)
        return true;
    if (json_is_integer(value)) {
        *out_number = (uint64_t)json_integer_value(value);
        return json_integer_value(value) >= 0;
    }
    const char *text = json_string_value(value);
    if (!text || *text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    *out_number = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

static bool take_revision(const json_t *object, const char *key, int64_t *out_revision) {
    uint64_t number;
    if (!take_number(object, key, &number) || number > INT64_MAX)
        return false;
    *out_revision = (int64_t)number;
    return true;
}

static enum tt_err misread(const char *what, struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why, "etcd: %s is not what its documentation says", what);
}

static enum tt_err parse(const char *body, size_t length, json_t **out_root, struct tt_error *why) {
    json_error_t problem;
    *out_root = tt_json_tree_load(body, length, JSON_REJECT_DUPLICATES, &problem);
    if (!*out_root || !json_is_object(*out_root)) {
        json_decref(*out_root);
        *out_root = NULL;
        return tt_fail(TT_ERR_INVALID, why, "etcd: an answer is no JSON object");
    }
    return TT_OK;
}

/* "error", "message" and "code" of a refusal. */
static enum tt_err refused(const json_t *root, int32_t status, struct tt_error *why) {
    const char *text = json_string_value(json_object_get(root, "message"));
    bool is_gone = json_integer_value(json_object_get(root, "code")) == GRPC_NOT_FOUND;
    char shown[SHOWN_BYTES];
    text = text ? text : "no message";
    return tt_fail(is_gone ? TT_ERR_NOT_FOUND : TT_ERR_UNAVAILABLE, why, "etcd: HTTP status %d: %s",
                   status, tt_http_shown(text, strlen(text), shown, SHOWN_BYTES));
}

/* The epoch that a value of the key "primary" states, or the first line of "placement". */
static bool take_epoch(const char *text, uint64_t *out_epoch) {
    char *end;
    errno = 0;
    *out_epoch = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && (*end == '\0' || *end == '\n') && errno == 0;
}

static bool read_swap(const json_t *root, struct tt_coordination_answer *answer) {
    answer->is_done = json_is_true(json_object_get(root, "succeeded"));
    if (answer->is_done) /* the caller knows the epoch */
        return take_revision(json_object_get(root, "header"), "revision", &answer->revision) &&
               answer->revision > 0;
    const json_t *range =
        json_object_get(json_array_get(json_object_get(root, "responses"), 0), "response_range");
    const json_t *entry = json_array_get(json_object_get(range, "kvs"), 0);
    if (!range || !entry)
        return range != NULL; /* there is no record */
    const char *value = json_string_value(json_object_get(entry, "value"));
    char *text = value ? take_base64(value) : NULL;
    /* What is no number is another program's: any epoch is higher. */
    if (text && !take_epoch(text, &answer->epoch))
        answer->epoch = 0;
    free(text);
    return take_revision(entry, "mod_revision", &answer->revision) && answer->revision > 0;
}

static enum tt_err read_lease(const json_t *object, struct tt_coordination_answer *answer,
                              struct tt_error *why) {
    uint64_t seconds;
    if (!take_number(object, "ID", &answer->lease) || answer->lease == 0 ||
        !take_number(object, "TTL", &seconds) || seconds > (uint64_t)(INT64_MAX / TT_S))
        return misread("a lease", why);
    answer->ttl_ns = (int64_t)seconds * TT_S;
    return seconds > 0 ? TT_OK : tt_fail(TT_ERR_NOT_FOUND, why, "etcd: the lease has expired");
}

enum tt_err tt_etcd_read(enum tt_coordination_verb verb, int32_t status, const char *body,
                         size_t length, struct tt_coordination_answer *out_answer,
                         struct tt_error *why) {
    json_t *root;
    struct tt_coordination_answer answer = {.number = out_answer->number};
    enum tt_err err = parse(body, length, &root, why);
    if (err)
        return err;
    if (status != 200)
        err = refused(root, status, why);
    else if (verb == TT_COORDINATION_LEASE)
        err = read_lease(root, &answer, why);
    else if (verb == TT_COORDINATION_KEEP)
        err = read_lease(json_object_get(root, "result"), &answer, why);
    else if (verb == TT_COORDINATION_SWAP && !read_swap(root, &answer))
        err = misread("the answer to a transaction", why);
    json_decref(root);
    if (!err)
        *out_answer = answer;
    return err;
}

/* ---- keys ---- */

static enum tt_etcd_key classify(const char *name, const char *key, const char **out_rest) {
    size_t length = strlen(name);
    static const char folder[] = "tutti/", members[] = "members/";
    if (strncmp(key, folder, sizeof(folder) - 1) != 0)
        return TT_ETCD_OTHER;
    key += sizeof(folder) - 1;
    if (strncmp(key, name, length) != 0 || key[length] != '/')
        return TT_ETCD_OTHER;
    key += length + 1;
    *out_rest = key + sizeof(members) - 1;
    if (strncmp(key, members, sizeof(members) - 1) == 0)
        return key[sizeof(members) - 1] ? TT_ETCD_MEMBER : TT_ETCD_OTHER;
    return strcmp(key, "nodes") == 0       ? TT_ETCD_NODES
           : strcmp(key, "primary") == 0   ? TT_ETCD_PRIMARY
           : strcmp(key, "placement") == 0 ? TT_ETCD_PLACEMENT
                                           : TT_ETCD_OTHER;
}

static enum tt_err read_entry(const char *name, const json_t *object, bool is_there,
                              tt_etcd_entry_fn *each, void *context, struct tt_error *why) {
    const char *key64 = json_string_value(json_object_get(object, "key"));
    const json_t *value64 = json_object_get(object, "value");
    char *key = key64 ? take_base64(key64) : NULL;
    char *value = take_base64(json_is_string(value64) ? json_string_value(value64) : "");
    struct tt_etcd_entry entry = {.is_there = is_there, .value = value, .node = ""};
    const char *rest = "";
    bool is_good = key && value && take_revision(object, "mod_revision", &entry.revision);
    if (is_good)
        entry.key = classify(name, key, &rest);
    if (entry.key == TT_ETCD_MEMBER)
        entry.node = rest;
    if (entry.key == TT_ETCD_PRIMARY && is_there && is_good)
        is_good = take_epoch(value, &entry.epoch);
    if (is_good && entry.key != TT_ETCD_OTHER)
        each(context, &entry);
    free(key);
    free(value);
    return is_good ? TT_OK : misread("an entry", why);
}

enum tt_err tt_etcd_read_list(const char *name, const char *body, size_t length,
                              tt_etcd_entry_fn *each, void *context, int64_t *out_revision,
                              struct tt_error *why) {
    json_t *root;
    enum tt_err err = parse(body, length, &root, why);
    if (err)
        return err;
    const json_t *entries = json_object_get(root, "kvs");
    if (!take_revision(json_object_get(root, "header"), "revision", out_revision) ||
        *out_revision <= 0)
        err = misread("a list of keys", why);
    for (size_t i = 0; !err && i < json_array_size(entries); i++)
        err = read_entry(name, json_array_get(entries, i), true, each, context, why);
    json_decref(root);
    return err;
}

enum tt_err tt_etcd_read_change(const char *name, const char *line, size_t length,
                                tt_etcd_entry_fn *each, void *context, int64_t *out_revision,
                                struct tt_error *why) {
    json_t *root;
    enum tt_err err = parse(line, length, &root, why);
    if (err)
        return err;
    const json_t *result = json_object_get(root, "result");
    const json_t *events = json_object_get(result, "events");
    if (!result)
        err = tt_fail(TT_ERR_UNAVAILABLE, why, "etcd: the watch has ended");
    else if (json_is_true(json_object_get(result, "canceled")))
        err = tt_fail(TT_ERR_UNAVAILABLE, why, "etcd: the watch was cancelled");
    else if (!take_revision(json_object_get(result, "header"), "revision", out_revision))
        err = misread("a change", why);
    for (size_t i = 0; !err && i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *type = json_string_value(json_object_get(event, "type"));
        bool is_there = !type || strcmp(type, "DELETE") != 0;
        err = read_entry(name, json_object_get(event, "kv"), is_there, each, context, why);
    }
    json_decref(root);
    return err;
}
