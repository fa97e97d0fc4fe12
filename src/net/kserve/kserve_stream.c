#include "net/kserve/kserve_stream.h"

#include "serve/served_model.h"

int32_t tt_kserve_stream_output(const struct tt_kserve_request *request,
                                const struct tt_served_model *model) {
    int32_t emitted = tt_served_model_emitted(model);
    for (int32_t i = 0; i < request->output_count; i++)
        if (request->outputs[i].index == emitted)
            return request->outputs[i].share ? -1 : emitted;
    return request->output_count == 0 ? emitted : -1;
}

void tt_kserve_stream_word(struct tt_kserve_answer *out_answer,
                           const struct tt_kserve_request *request,
                           const struct tt_served_model *model, const struct tt_tensor_view *word) {
    int32_t emitted = tt_served_model_emitted(model);
    out_answer->model_name = tt_served_model_name(model);
    out_answer->model_version = tt_served_model_version(model);
    out_answer->id = &request->id;
    out_answer->output_count = 1;
    out_answer->outputs[0].spec = &tt_served_model_signature(model)->outputs[emitted];
    out_answer->outputs[0].is_binary = false;
    out_answer->outputs[0].share = NULL;
    out_answer->outputs[0].view = *word;
}

void tt_kserve_stream_rest(struct tt_kserve_answer *out_answer,
                           const struct tt_kserve_request *request,
                           const struct tt_served_model *model,
                           const struct tt_inference *inference) {
    const struct tt_tensor_spec *emitted =
        &tt_served_model_signature(model)->outputs[tt_served_model_emitted(model)];
    tt_kserve_answer_fill(out_answer, request, model, inference);
    int32_t kept = 0;
    for (int32_t i = 0; i < out_answer->output_count; i++)
        if (out_answer->outputs[i].spec != emitted)
            out_answer->outputs[kept++] = out_answer->outputs[i];
    out_answer->output_count = kept;
}
