/* Makes the room for the words that a streamed request emits (serve/emissions.h). Implemented in
 * word_stream.c. */
#ifndef TT_SERVE_WORD_STREAM_H
#define TT_SERVE_WORD_STREAM_H

#include <stdint.h>

struct tt_inference;

/* On the port's thread, once the inference of a model of cells was unfolded (where that is done
 * here), and before it is sent.
 * Does nothing unless it is streamed. `limit_words`: what a stream may hold for its client. Sets
 * the inference's error if memory runs out. */
void tt_word_stream_open(struct tt_inference *inference, int64_t limit_words);

#endif
