#include "serve/word_stream.h"

#include "serve/cell_run.h"
#include "serve/emissions.h"
#include "serve/inference_state.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"

/* The rows of its ring. Where the policy takes whole sequences, all words of a task come at once:
 * the room is then for all of them. */
static int64_t rows_of(const struct tt_inference *inference, int64_t limit_words) {
    const struct tt_served_model *model = inference->model;
    if (!model->cells) /* they run elsewhere */
        return limit_words;
    int64_t most = inference->cell_run->unfolded->output_length;
    most = most > 0 ? most : 1;
    return model->cells->by_cell && most > limit_words ? limit_words : most;
}

void tt_word_stream_open(struct tt_inference *inference, int64_t limit_words) {
    if (inference->err || !inference->emitted)
        return;
    const struct tt_served_model *model = inference->model;
    int64_t rows = rows_of(inference, limit_words);
    struct tt_tensor_view word;
    tt_served_model_word(model, NULL, &word);
    if (tt_emissions_new(rows, word.size_bytes, &inference->emissions))
        inference->err = tt_fail(TT_ERR_NO_MEMORY, &inference->why,
                                 "out of memory for a stream of %lld words", (long long)rows);
}
