/* C1: sessions that models share. All cells of equal digest (model/cells/cells.h) use one session,
 * so that their weights, plain and packed, are in memory once.
 *
 * A session belongs to no executor and keeps nothing of a run, so models of different engines and
 * policies may run it concurrently. Life: the first _take makes it, which may take seconds;
 * concurrent callers wait. The last _give releases it.
 *
 * A digest describes a file when it was read. If a file is replaced while its first model loads,
 * later models with the old digest run what was loaded. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_SHARED_H
#define TT_ENGINE_ONNXRUNTIME_ORT_SHARED_H

#include "base/list.h"
#include "base/threads/lock.h"
#include "engine/onnxruntime/ort_library.h"

struct tt_ort_shared {
    struct tt_lock lock;
    struct tt_list sessions;
};

void tt_ort_shared_init(struct tt_ort_shared *self);
void tt_ort_shared_fini(struct tt_ort_shared *self); /* all sessions must have been given back */
/* `path` is an ONNX file whose cell has this digest. Any thread. Errors: those of the runtime,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_shared_take(const struct tt_ort_library *library,
                                             const char *digest, const char *path,
                                             OrtSession **out_session, struct tt_error *why);
/* The caller must have no Run() in flight on this session. Any thread. */
void tt_ort_shared_give(const struct tt_ort_library *library, const OrtSession *session);

#endif
