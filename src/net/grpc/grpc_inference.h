/* One inference of a call, step by step: what grpc_work.h does partly beside the loop, and
 * tt_grpc_call_infer() at once.
 *
 * Life: new; read; reserve; write; submit. Whatever step fails, submit ends it with the error; if
 * the client leaves before, it is freed. From submit on it belongs to the call. Implemented in
 * grpc_inference.c. */
#ifndef TT_NET_GRPC_GRPC_INFERENCE_H
#define TT_NET_GRPC_GRPC_INFERENCE_H

#include "net/grpc/grpc_call.h"

struct grpc_inference;

/* NULL: it was refused, and the call has ended with the reason. */
struct grpc_inference *tt_grpc_inference_new(struct tt_grpc_call *call);
/* Its message is complete, and is read later: the time until then counts. */
void tt_grpc_inference_note_came(struct grpc_inference *self);
/* Any thread; the bytes must stay until it is written. The errors of tt_infer_message_read(). */
TT_MUST_CHECK enum tt_err tt_grpc_inference_read(struct grpc_inference *self, const char *bytes,
                                                 size_t size_bytes, struct tt_error *why);
/* Looks up the model and reserves memory. NOT_FOUND, TIMEOUT, and the errors of
 * tt_kserve_reserve(). */
TT_MUST_CHECK enum tt_err tt_grpc_inference_reserve(struct grpc_inference *self,
                                                    struct tt_error *why);
/* Writes the inputs. Any thread. The errors of tt_kserve_fill(). */
TT_MUST_CHECK enum tt_err tt_grpc_inference_write(struct grpc_inference *self,
                                                  struct tt_error *why);
/* Submits it, or answers with the error. */
void tt_grpc_inference_submit(struct grpc_inference *take_self, enum tt_err err,
                              struct tt_error *why);
/* It was not submitted. */
void tt_grpc_inference_free(struct grpc_inference *take_self);

#endif
