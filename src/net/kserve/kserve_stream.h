/* An answer that is sent word by word: one answer per word, then the rest.
 *
 * A word is one row of the output that a model of cells emits (serve/inference.h). The rest are the
 * other outputs that the request asks for, which exist when the inference is done; there may be
 * none. Put together, the words are the emitted output of the answer as a whole, bit for bit.
 *
 * It never waits, and keeps nothing. Implemented in kserve_stream.c. */
#ifndef TT_NET_KSERVE_KSERVE_STREAM_H
#define TT_NET_KSERVE_KSERVE_STREAM_H

#include "net/kserve/kserve_request.h"

/* The emitted output that the request asks for, as an index in the model's signature; -1: none, or
 * it goes to shared memory, so its answer is sent as a whole. After tt_kserve_begin(). */
int32_t tt_kserve_stream_output(const struct tt_kserve_request *request,
                                const struct tt_served_model *model);
/* The answer that holds one word, with borrowed pointers. */
void tt_kserve_stream_word(struct tt_kserve_answer *out_answer,
                           const struct tt_kserve_request *request,
                           const struct tt_served_model *model, const struct tt_tensor_view *word);
/* The answer that holds what is not words, of an inference that is done without error. */
void tt_kserve_stream_rest(struct tt_kserve_answer *out_answer,
                           const struct tt_kserve_request *request,
                           const struct tt_served_model *model,
                           const struct tt_inference *inference);

#endif
