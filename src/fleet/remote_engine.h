/* An engine kind whose tasks are taken by another thread of this process: a frontend of a cluster
 * takes them to the cluster; nodes that run no requests of clients take none.
 *
 * It loads no file: inputs and outputs must be listed in config.pbtxt. A submitted task goes into a
 * queue and wakes the taker, which calls _done for it, once. Tasks cannot be stopped; a client that
 * goes is reported through the same queue.
 *
 * Life: _new; engines of the kind open with it as the context of their runtime (loader option
 * `engine_context`); _attach; tasks; all engines are closed; _free.
 *
 * Threads: engines submit as engine/engine.h says, _take and _done are for the taker's thread.
 * Implemented in remote_engine.c. */
#ifndef TT_FLEET_REMOTE_ENGINE_H
#define TT_FLEET_REMOTE_ENGINE_H

#include "engine/engine_kind.h"

struct tt_remote_engine;

extern const struct tt_engine_kind tt_remote_engine_kind;

/* NULL: out of memory. `capacity`: tasks and withdrawals in the queue at once, of all its engines.
 */
struct tt_remote_engine *tt_remote_engine_new(int32_t capacity);
void tt_remote_engine_free(struct tt_remote_engine *take_self); /* NULL-safe */
/* `wake` is called after one or several submissions, on any thread. Before the first one. */
void tt_remote_engine_attach(struct tt_remote_engine *self, void (*wake)(void *context),
                             void *context);
/* The next task; NULL: none is queued, or *out_withdrawn is not NULL: the client of this member has
 * gone. The member's task may be done already; no later use of its memory was taken before. */
struct tt_engine_task *tt_remote_engine_take(struct tt_remote_engine *self,
                                             struct tt_engine_member **out_withdrawn);
/* The members' err and result are set. `more`: the caller does the same for another task at once.
 */
void tt_remote_engine_done(struct tt_engine_task *task, int64_t ended_at, bool more);
/* Makes a result for one member out of its outputs, which are copied and checked against the
 * model's signature. `views`: in the order of the signature. Errors: INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_remote_engine_result(const struct tt_engine_task *task,
                                                  struct tt_engine_member *member,
                                                  const struct tt_tensor_view *views,
                                                  struct tt_error *why);

#endif
