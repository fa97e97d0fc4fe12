/* C1: sessions that models have in common: one for all cells of equal digest (model/cells/cells.h),
 * so that their weights, and what the runtime packs of them, are in memory once.
 *
 * A session belongs to no executor and keeps nothing of a run, so models of different engines and
 * policies run it at once. Life of one: made by the first who takes it, which may take seconds in
 * which other takers wait; released when the last gives it back.
 *
 * A digest is as good as its file was when it was read: who puts another file in its place while
 * the first model of them loads has the others run what was loaded. */
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
void tt_ort_shared_fini(struct tt_ort_shared *self); /* all were given back */
/* `path` is that of an ONNX file whose cell has the digest. Any thread. Errors: those of the
 * runtime, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_shared_take(const struct tt_ort_library *library,
                                             const char *digest, const char *path,
                                             OrtSession **out_session, struct tt_error *why);
/* No run of who gives it back goes on. Any thread. */
void tt_ort_shared_give(const struct tt_ort_library *library, const OrtSession *session);

#endif
