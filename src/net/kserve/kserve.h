/* The Open Inference Protocol (KServe v2, as Triton speaks it), without sockets: what an infer
 * request's body says, and the body of its answer.
 *
 * Life of a request: `tt_kserve_begin` goes over the JSON once, remembering where each tensor's
 * values lie (in a JSON array, or in the binary tail behind the JSON), asks the model for memory,
 * and writes every tensor into its place (JSON numbers converted, binary ones copied: the one copy
 * from the socket). After that the body may go. The caller submits the infer. When it is done,
 * `tt_kserve_answer` writes the JSON and lists the binary outputs where they lie, so that nothing
 * is copied until the socket takes it.
 *
 * Binary outputs are asked for per output (`binary_data`), or for all by `binary_data_output` where
 * no outputs are listed; where outputs are listed, only those are answered.
 *
 * Not taken, with an error that says so: classification, shared memory, sequences. */
#ifndef TT_NET_KSERVE_KSERVE_H
#define TT_NET_KSERVE_KSERVE_H

#include "base/text.h"
#include "serve/serving.h"

struct tt_kserve_input {
    struct tt_inference_shape shape;
    const char *data; /* in the body: the JSON array, or the binary tensor */
    size_t data_bytes;
    size_t size_bytes; /* in memory */
    bool is_json;
    bool is_raw_string; /* the whole data is one string, without its length in front */
};

struct tt_kserve_output {
    int32_t output; /* index in the signature */
    bool is_binary;
};

struct tt_kserve_request {
    struct tt_text id; /* as it stood in the JSON, quotes and all; empty: none */
    struct tt_infer_options options;
    int32_t input_count, output_count;
    bool binary_output; /* binary_data_output */
    int32_t json_depth; /* most arrays and objects within each other; the reader's to lower */
    struct tt_kserve_input inputs[TT_MAX_TENSORS];
    struct tt_kserve_output outputs[TT_MAX_TENSORS];
};

void tt_kserve_request_init(struct tt_kserve_request *self);
void tt_kserve_request_fini(struct tt_kserve_request *self);

/* Goes over a body for a model of this signature. `json_bytes`: length of the JSON in front of the
 * binary tensors; -1: all of it is JSON; 0: there is none, the body is the one input itself. The
 * body must live until the inputs are filled. `self` is initialised, and to be finished also after
 * an error. INVALID, UNSUPPORTED, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_read(struct tt_kserve_request *self,
                                         const struct tt_signature *signature,
                                         const char *model_name, const char *body,
                                         size_t body_bytes, int64_t json_bytes,
                                         struct tt_error *why);
/* Writes input `i` of the request to `to`, `size_bytes` long. INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_fill(const struct tt_kserve_request *self,
                                         const struct tt_signature *signature, int32_t i, void *to,
                                         size_t size_bytes, struct tt_error *why);
/* Both, and tt_inference_begin between them: an infer ready for submission. */
TT_MUST_CHECK enum tt_err tt_kserve_begin(struct tt_kserve_request *self, struct tt_port *port,
                                          struct tt_served_model *model, const char *body,
                                          size_t body_bytes, int64_t json_bytes,
                                          struct tt_inference **out_infer, struct tt_error *why);

struct tt_kserve_answer {
    struct tt_text json;
    bool has_binary;     /* else the JSON is all, and no Inference-Header-Content-Length is due */
    size_t binary_bytes; /* of all parts */
    int32_t part_count;
    struct {
        const void *bytes; /* the infer's: until it is released */
        size_t size_bytes;
    } parts[TT_MAX_TENSORS];
};

void tt_kserve_answer_init(struct tt_kserve_answer *self);
void tt_kserve_answer_fini(struct tt_kserve_answer *self);
/* Fills the (initialised) answer from the outputs of an infer that is done without error. */
TT_MUST_CHECK enum tt_err tt_kserve_write(struct tt_kserve_answer *self,
                                          const struct tt_kserve_request *request,
                                          const struct tt_served_model *model,
                                          const struct tt_inference *infer, struct tt_error *why);

#endif
