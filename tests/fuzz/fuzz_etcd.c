/* libFuzzer target: any bytes as an answer of etcd. The first byte chooses what they answer, and
 * the status. What is accepted keeps its promises; an error has a sentence. */
/* covers: etcd/etcd_message.c */
#include "etcd/etcd_message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VERBS = 5, LIST = VERBS, CHANGE, KINDS };

static void on_entry(void *context, const struct tt_etcd_entry *entry) {
    int32_t *count = context;
    ++*count;
    tt_assert(entry->key != TT_ETCD_OTHER && entry->revision >= 0);
    tt_assert(entry->key != TT_ETCD_MEMBER || strlen(entry->node) > 0);
    tt_assert(strlen(entry->value) < (size_t)1 << 30);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    size_t count = size - 1;
    char *body = malloc(count ? count : 1); /* exactly as many, so that a read beyond is seen */
    tt_assert(body != NULL);
    memcpy(body, data + 1, count);
    struct tt_error why = {{0}};
    int64_t revision;
    int32_t entries = 0, kind = data[0] % KINDS;
    enum tt_err err;
    if (kind == LIST) {
        err = tt_etcd_read_list("test", body, count, on_entry, &entries, &revision, &why);
        tt_assert(err || revision > 0);
    } else if (kind == CHANGE) {
        err = tt_etcd_read_change("test", body, count, on_entry, &entries, &revision, &why);
    } else {
        enum tt_coordination_verb verb = (enum tt_coordination_verb)kind;
        struct tt_coordination_answer answer = {.number = 1};
        err = tt_etcd_read(verb, data[0] & 0x80 ? 404 : 200, body, count, &answer, &why);
        tt_assert(answer.number == 1 && answer.revision >= 0 && answer.ttl_ns >= 0);
        tt_assert(err || verb != TT_COORDINATION_LEASE || answer.lease > 0);
        tt_assert(err || verb != TT_COORDINATION_SWAP || !answer.is_done || answer.revision > 0);
    }
    tt_assert((err == TT_OK) == (why.text[0] == '\0'));
    free(body);
    return 0;
}
