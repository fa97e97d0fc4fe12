/* The codec between the Open Inference Protocol's requests and answers (kserve_request.h) and their
 * JSON form, with or without binary tensors after the JSON (Triton's extension).
 *
 * Reading passes over the JSON once and remembers where each tensor's values are: in a JSON array,
 * which a decoder converts later straight into the model's memory, or in the binary part, which is
 * copied there. Writing appends the JSON and lists the binary outputs where they are.
 *
 * An output is binary if the request asks so for it (`binary_data`), or for all outputs
 * (`binary_data_output`) where it lists none. If it lists outputs, only those are answered.
 *
 * Rejected with an error that says so: classification, shared memory, sequences. It never touches a
 * model or a connection. Implemented in kserve_json.c (reading) and kserve_json_write.c. */
#ifndef TT_NET_KSERVE_KSERVE_JSON_H
#define TT_NET_KSERVE_KSERVE_JSON_H

#include "net/kserve/kserve_request.h"

struct tt_kserve_json_body {
    const char *bytes;
    size_t size_bytes;
    /* Length of the JSON before the binary tensors; -1: all is JSON; 0: there is none, and the body
     * is the model's only input itself. */
    int64_t json_bytes;
    int32_t max_depth; /* of nested arrays and objects */
};

/* Fills an initialised request, whose `target` is set. The body must live until tt_kserve_begin
 * returns; `signature` is read only for a body without JSON, which names neither input nor shape.
 * INVALID, UNSUPPORTED, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_json_read(struct tt_kserve_request *out_request,
                                              const struct tt_signature *signature,
                                              const struct tt_kserve_json_body *body,
                                              struct tt_error *why);

/* Reads only what a refusal depends on, "parameters", and an "id" before it. What is wrong with the
 * rest is not found. tt_kserve_request_restart() must precede another reading. INVALID,
 * UNSUPPORTED, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_json_glance(struct tt_kserve_request *out_request,
                                                const struct tt_kserve_json_body *body);
/* The binary outputs, in the order in which they follow the JSON. */
struct tt_kserve_parts {
    size_t size_bytes; /* of all parts; 0: the JSON is the whole body */
    int32_t count;
    struct {
        const void *bytes; /* the inference's: until it is released */
        size_t size_bytes;
    } parts[TT_MAX_TENSORS];
};

/* Appends the answer's JSON to `out_json` and sets `out_parts`. INVALID (a value that JSON cannot
 * express), INTERNAL, NO_MEMORY; `out_json` is then incomplete. */
TT_MUST_CHECK enum tt_err tt_kserve_json_write(const struct tt_kserve_answer *answer,
                                               struct tt_text *out_json,
                                               struct tt_kserve_parts *out_parts,
                                               struct tt_error *why);

#endif
