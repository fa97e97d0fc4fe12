/* One request to a model, as the thread of its connection sees it.
 *
 * Life: tt_inference_begin() checks the shapes and reserves memory; the caller writes each input
 * where tt_inference_input() says (the one copy from the socket); tt_inference_submit() hands it to
 * the model's domain, which decides when and with which others it runs. `done` is called once, from
 * tt_port_drain(). There the caller reads the outputs in place (tt_inference_output()), and gives
 * the request back with tt_inference_release(). If the client goes away it calls
 * tt_inference_cancel(); `done` is then called with TT_ERR_CANCELLED, or with the answer.
 *
 * A request to an ensemble is the same to its caller (serve/ensemble_run.h).
 *
 * All functions are for the thread of the port that the inference began on. Implemented in
 * inference.c; what a request consists of is in inference_state.h. */
#ifndef TT_SERVE_INFERENCE_H
#define TT_SERVE_INFERENCE_H

#include "base/err.h"
#include "core/tensor.h"
#include "serve/inference_shape.h"

struct tt_inference;
struct tt_port;
struct tt_served_model;
struct tt_tensor_view;

typedef void tt_inference_done_fn(void *context, struct tt_inference *inference, enum tt_err err,
                                  const char *why);

/* `shapes`: every input of the signature exactly once, in any order. `sizes_bytes[i]`: the size of
 * input shapes[i] where its dtype is BYTES (else ignored). Errors: INVALID (a shape does not fit;
 * see serve/inference_shape.h), BUSY (the port's limit of requests or of bytes in flight),
 * NO_MEMORY. The model stays until the inference is released. */
TT_MUST_CHECK enum tt_err tt_inference_begin(struct tt_port *port, struct tt_served_model *model,
                                             const struct tt_inference_shape *shapes,
                                             const size_t *sizes_bytes, int32_t count,
                                             struct tt_inference **out_inference,
                                             struct tt_error *why);
/* Inputs that are in memory already. */
struct tt_inference_loan {
    const struct tt_tensor_view *inputs; /* per input of the signature; the views are copied */
    void (*returned)(void *context);     /* nothing reads the bytes any more */
    void *context;
};
/* As _begin, but the inputs stay where they are, until `returned` is called: once, after release.
 * They may be written until submit. It takes nothing of the port's limits: it is a step of a
 * request that does. Errors: INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_inference_begin_lent(struct tt_port *port,
                                                  struct tt_served_model *model,
                                                  const struct tt_inference_loan *loan,
                                                  struct tt_inference **out_inference,
                                                  struct tt_error *why);
/* An inference that asks whether a request of so many rows, at most those of the model's largest
 * batch, would be refused on arrival. It has no inputs. It is submitted as others are: `done` gets
 * the refusal, which counts as that of any request, or TT_OK: nothing has happened. Then it is
 * released, and the request begins. Only after tt_inference_may_ask(). Errors: BUSY, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_inference_ask(struct tt_port *port, struct tt_served_model *model,
                                           int32_t rows, struct tt_inference **out_inference,
                                           struct tt_error *why);
/* Where the bytes of signature input `input` go, and how many there must be. Before submit. */
void *tt_inference_input(struct tt_inference *inference, int32_t input, size_t *out_size_bytes);

enum { TT_INFERENCE_ID_BYTES = 44 }; /* the NUL included */
struct tt_inference_options {
    int64_t timeout_ns;             /* 0: the model's own */
    int64_t since_at;               /* the timeout counts from here; 0: from when it came */
    int32_t priority;               /* 0: the model's default; 1 is the most urgent */
    char id[TT_INFERENCE_ID_BYTES]; /* the client's, for traces: UTF-8, the beginning of it; "":
                                       none */
};
/* Whether the model's latest arrival was refused for its deadline, so that a request may ask before
 * its inputs are read. Not where the inputs say which other requests it can share a batch with. */
bool tt_inference_may_ask(const struct tt_served_model *model);
/* The same, and a request with these options has no more time than that one had. */
bool tt_inference_should_ask(const struct tt_served_model *model,
                             const struct tt_inference_options *options);
/* Hands the request to the model's domain. Once. */
void tt_inference_submit(struct tt_inference *inference, const struct tt_inference_options *options,
                         tt_inference_done_fn *done, void *context);
/* The request's words, which are what its cells emit, can be read as they come: `emitted` is called
 * from tt_port_drain() with the context of `done`, before that, when there are new ones. Before
 * submit. UNSUPPORTED: the model emits nothing that clients see. */
typedef void tt_inference_emitted_fn(void *context, struct tt_inference *inference);
TT_MUST_CHECK enum tt_err tt_inference_stream(struct tt_inference *inference,
                                              tt_inference_emitted_fn *emitted,
                                              struct tt_error *why);
/* The oldest word that was not read: one row of output tt_served_model_emitted(), of shape
 * [1, 1, ...], valid until the next call. False: there is none now; after `done`, none any more.
 * After submit, until release. A client that reads too slowly loses its request: `done` is called
 * with TT_ERR_CANCELLED (limit `stream_words`). */
bool tt_inference_next_word(struct tt_inference *inference, struct tt_tensor_view *out_view);
/* From when on its timeout counts; after submit, until release. */
int64_t tt_inference_since_at(const struct tt_inference *inference);
/* The client has gone. After submit; a second call does nothing. */
void tt_inference_cancel(struct tt_inference *inference);
/* Output `output` of the signature, in place, until release. After a `done` without error. */
void tt_inference_output(const struct tt_inference *inference, int32_t output,
                         struct tt_tensor_view *out_view);
struct tt_inference_account {
    int32_t
        batch_rows; /* of the batch that computed its last step; 0: none did, or it ran in cells */
    int32_t rows, priority;
    int64_t since_at, deadline_at;   /* its time counted from since_at; TT_NEVER: it had no end */
    int64_t submitted_at;            /* 0: it was not submitted */
    int64_t started_at, computed_at; /* of its first step and its last; 0: it did not run */
    /* Of its batches: making them contiguous, and running; of one batch, if is_one_run. */
    int64_t input_ns, infer_ns;
    bool is_one_run;
    const char *why; /* it was not answered; "": it was. Until release */
};
/* How it went. Before submit, or from `done` on. */
void tt_inference_account(const struct tt_inference *inference,
                          struct tt_inference_account *out_account);
/* How a step of an ensemble went. */
struct tt_inference_step {
    const char *model;   /* of the step; until release */
    int32_t number;      /* from 1, in the configuration */
    int32_t batch_rows;  /* as in the account above */
    int64_t deadline_at; /* its share of the time; TT_NEVER: none */
    int64_t submitted_at;
    int64_t started_at; /* 0: it did not run */
    int64_t ended_at;
    bool is_failed; /* it was not answered */
};
/* Step `index` of those that were submitted, in their order. False: there are not so many; the
 * model is none. After `done`, until release. */
bool tt_inference_step(const struct tt_inference *inference, int32_t index,
                       struct tt_inference_step *out_step);
/* Gives everything back. Legal before submit (the body turned out bad) and from `done` on. */
void tt_inference_release(struct tt_inference *take_inference);

#endif
