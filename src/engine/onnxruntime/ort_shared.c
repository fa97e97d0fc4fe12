#include "engine/onnxruntime/ort_shared.h"
#include "engine/onnxruntime/ort_check.h"

#include "engine/onnxruntime/ort_session.h"
#include "model/text/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shared_session {
    struct tt_list_node link;
    char digest[TT_DIGEST_BYTES];
    OrtSession *session;
    int32_t users;
};

static struct shared_session *session_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct shared_session, link);
}

void tt_ort_shared_init(struct tt_ort_shared *self) {
    tt_lock_init(&self->lock);
    tt_list_init(&self->sessions);
}

void tt_ort_shared_fini(struct tt_ort_shared *self) {
    tt_assert(tt_list_empty(&self->sessions));
    tt_lock_fini(&self->lock);
}

static enum tt_err make(const struct tt_ort_library *library, const char *digest, const char *path,
                        struct shared_session **out_shared, struct tt_error *why) {
    struct shared_session *shared = calloc(1, sizeof(*shared));
    if (!shared)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    snprintf(shared->digest, sizeof(shared->digest), "%s", digest);
    OrtSessionOptions *options;
    enum tt_err err = tt_ort_session_options_new(library, TT_ORT_OPTIMIZE_ALL, &options, why);
    if (!err) {
        err = tt_ort_check(
            library, library->api->CreateSession(library->env, path, options, &shared->session),
            why);
        library->api->ReleaseSessionOptions(options);
    }
    if (err) {
        free(shared);
        return err;
    }
    *out_shared = shared;
    return TT_OK;
}

enum tt_err tt_ort_shared_take(const struct tt_ort_library *library, const char *digest,
                               const char *path, OrtSession **out_session, struct tt_error *why) {
    struct tt_ort_shared *self = library->shared;
    tt_assert(strlen(digest) == TT_DIGEST_BYTES - 1);
    tt_lock_take(&self->lock);
    struct tt_list_node *node = tt_list_first(&self->sessions);
    while (node && strcmp(session_at(node)->digest, digest) != 0)
        node = tt_list_next(&self->sessions, node);
    struct shared_session *shared = node ? session_at(node) : NULL;
    enum tt_err err = TT_OK;
    if (!shared) {
        err = make(library, digest, path, &shared, why);
        if (!err)
            tt_list_push_back(&self->sessions, &shared->link);
    }
    if (!err) {
        shared->users++;
        *out_session = shared->session;
    }
    tt_lock_give(&self->lock);
    return err;
}

void tt_ort_shared_give(const struct tt_ort_library *library, const OrtSession *session) {
    struct tt_ort_shared *self = library->shared;
    tt_lock_take(&self->lock);
    struct tt_list_node *node = tt_list_first(&self->sessions);
    while (node && session_at(node)->session != session)
        node = tt_list_next(&self->sessions, node);
    tt_assert(node != NULL);
    struct shared_session *shared = session_at(node);
    if (--shared->users == 0) {
        tt_list_remove(&shared->link);
        library->api->ReleaseSession(shared->session);
        free(shared);
    }
    tt_lock_give(&self->lock);
}
