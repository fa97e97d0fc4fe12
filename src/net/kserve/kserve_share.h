/* The part of shared memory that one input or output of a request names.
 *
 * Life: begun empty when a codec begins to read the tensor's parameters; `_set` by the parameters;
 * then tt_kserve_share_input() or _output(), which find the region. The request holds what was
 * found until it is finished. Implemented in kserve_share.c. */
#ifndef TT_NET_KSERVE_KSERVE_SHARE_H
#define TT_NET_KSERVE_KSERVE_SHARE_H

#include "net/kserve/kserve_request.h"
#include "net/kserve/shared_memory.h"

/* As the parameters say. Zero-initialised: none is named. */
struct tt_kserve_share_draft {
    const char *region; /* borrowed, not NUL-terminated; NULL: none */
    size_t region_bytes;
    int64_t offset, size;
};

/* What a request keeps. */
struct tt_kserve_share {
    struct tt_kserve_share *next;
    struct tt_shared_region *region; /* a reference */
    uint64_t offset, size;
};

/* The keys of parameters. */
enum tt_kserve_share_key {
    TT_KSERVE_SHARE_NONE, /* another key */
    TT_KSERVE_SHARE_REGION,
    TT_KSERVE_SHARE_OFFSET,
    TT_KSERVE_SHARE_SIZE
};
enum tt_kserve_share_key tt_kserve_share_key(const char *key);

/* The tensor has only these bytes of a region. Shape and datatype of the input are set. UNSUPPORTED
 * (the server shares no memory), INVALID, NOT_FOUND, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_share_input(struct tt_kserve_request *request,
                                                struct tt_kserve_input *input,
                                                const struct tt_kserve_share_draft *draft,
                                                struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_kserve_share_output(struct tt_kserve_request *request,
                                                 struct tt_kserve_output *output,
                                                 const struct tt_kserve_share_draft *draft,
                                                 struct tt_error *why);
/* True: the input lies in shared memory. */
bool tt_kserve_share_is_source(const struct tt_kserve_input *input);
/* Bytes of the answer's outputs that belong into regions. */
uint64_t tt_kserve_shared_output_bytes(const struct tt_kserve_answer *answer);
/* Copies the answer's outputs that belong into regions there. INVALID: one has no room. */
TT_MUST_CHECK enum tt_err tt_kserve_share_write(const struct tt_kserve_answer *answer,
                                                struct tt_error *why);
#endif
