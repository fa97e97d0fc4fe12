/* The flat JSON of Triton's generate extension: a request whose members are inputs and parameters,
 * and an answer whose members are outputs.
 *
 * {"text_input": "hello", "max_tokens": 4, "parameters": {"timeout": 100000}}
 *
 * A member that has the name of an input of the model is that input: one value, or an array of
 * values, flat or nested. Its shape follows from the model: one request, and at most one open
 * dimension, which follows from the number of values. "id" is the request's. Every other member,
 * and every member of the object "parameters", is a parameter; unknown ones are ignored.
 *
 * The answer has "id", "model_name" and "model_version", then a member per output: one value where
 * the output has one element, else a flat array.
 *
 * It never touches a model or a connection. Implemented in kserve_generate.c. */
#ifndef TT_NET_KSERVE_KSERVE_GENERATE_H
#define TT_NET_KSERVE_KSERVE_GENERATE_H

#include "net/kserve/kserve_request.h"

/* Fills an initialised request, whose `target` is set. Body and signature must live until
 * tt_kserve_begin() returns. INVALID, UNSUPPORTED, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_generate_read(struct tt_kserve_request *out_request,
                                                  const struct tt_signature *signature,
                                                  const char *body, size_t body_bytes,
                                                  int32_t max_depth, struct tt_error *why);
/* Appends the answer. INVALID (a value that JSON cannot express), NO_MEMORY; `out_json` is then
 * incomplete. */
TT_MUST_CHECK enum tt_err tt_kserve_generate_write(const struct tt_kserve_answer *answer,
                                                   struct tt_text *out_json, struct tt_error *why);

#endif
