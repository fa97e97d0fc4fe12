#include "net/grpc/grpc_work.h"

#include "net/access/unpacked_bytes.h"
#include "net/grpc/grpc_inference.h"
#include "net/grpc/grpc_methods.h"
#include "net/grpc/infer_message.h"
#include "net/sockets/pool_work.h"

#include <stdlib.h>
#include <uv.h>

struct grpc_work {
    struct tt_pool_work work;
    struct tt_grpc_call *call;
    struct grpc_inference *inference; /* NULL: a load */
    struct tt_model_command *command; /* of a load, once it was read */
    struct tt_text message;           /* as received, then unpacked */
    enum tt_coding coding;            /* of the message; IDENTITY: it is not packed */
    size_t unpacked_limit;
    struct tt_body_part part; /* what the message holds of the budget */
    struct tt_unpacked_bytes bytes;
    enum tt_err err;
    bool is_unreadable; /* err is of the message as a whole: the call fails with `status` */
    enum tt_grpc_status status;
    struct tt_error why;
};

/* --- in the pool --- */

/* Takes the bytes that the message has unpacked to, or sets the error. */
static void take_bytes(struct grpc_work *self, size_t bytes) {
    bool is_holder;
    self->err = tt_unpacked_bytes_take(&self->bytes, bytes, &is_holder, &self->why);
    if (self->err)
        self->status = is_holder ? TT_GRPC_RESOURCE_EXHAUSTED : TT_GRPC_UNAVAILABLE;
}

static void unpack(struct grpc_work *self) {
    struct tt_text unpacked;
    tt_text_init(&unpacked);
    self->err = tt_coding_unpack(self->coding, self->message.bytes, self->message.length,
                                 self->unpacked_limit, &unpacked, &self->why);
    if (!self->err)
        take_bytes(self, unpacked.length);
    else
        self->status =
            self->err == TT_ERR_BUSY ? TT_GRPC_RESOURCE_EXHAUSTED : tt_grpc_status_of(self->err);
    self->is_unreadable = self->err != TT_OK;
    tt_text_fini(&self->message);
    self->message = unpacked;
}

static enum tt_err read_there(struct grpc_work *self) {
    const char *bytes = self->message.bytes ? self->message.bytes : "";
    size_t count = self->message.length;
    if (self->inference)
        return tt_grpc_inference_read(self->inference, bytes, count, &self->why);
    enum tt_err err = tt_grpc_read_command(true, bytes, count, &self->command, &self->why);
    if (!err &&
        (err = tt_model_command_charge(self->command, self->bytes.quota, &self->why)) != TT_OK) {
        tt_model_command_free(self->command);
        self->command = NULL;
    }
    return err;
}

/* The message is freed where nothing points into it any more: giving its memory back takes the
 * system milliseconds. */
static void read_message(struct tt_pool_work *work) {
    struct grpc_work *self = work->data;
    if (self->coding != TT_CODING_IDENTITY)
        unpack(self);
    if (!self->err)
        self->err = read_there(self);
    if (self->err || !self->inference)
        tt_text_fini(&self->message);
}

static void write_inputs(struct tt_pool_work *work) {
    struct grpc_work *self = work->data;
    self->err = tt_grpc_inference_write(self->inference, &self->why);
    tt_text_fini(&self->message);
}

static void drop_message(struct tt_pool_work *work) {
    struct grpc_work *self = work->data;
    tt_text_fini(&self->message);
}

/* --- on the loop --- */

/* The message was read, or its call is over. */
static void end_work(struct grpc_work *self) {
    struct tt_grpc_call *call = self->call;
    tt_body_part_end(&self->part);
    tt_unpacked_bytes_give(&self->bytes);
    tt_text_fini(&self->message);
    free(self);
    call->is_reading = false;
    call->running_count--;
    tt_grpc_call_proceed(call);
}

static void end_inference(struct grpc_work *self) {
    if (self->call->is_over) {
        tt_grpc_inference_free(self->inference);
    } else if (self->is_unreadable) {
        tt_grpc_inference_free(self->inference);
        tt_grpc_call_fail(self->call, self->status, self->why.text);
    } else {
        tt_grpc_inference_submit(self->inference, self->err, &self->why);
    }
    end_work(self);
}

static void on_written(struct tt_pool_work *work) { end_inference(work->data); }

static void end_load(struct grpc_work *self) {
    struct tt_grpc_call *call = self->call;
    if (!self->err) {
        tt_grpc_call_command(call, self->command);
    } else {
        tt_grpc_call_audit(call, false, self->why.text);
        if (!call->is_over)
            tt_grpc_call_fail(call,
                              self->is_unreadable ? self->status : tt_grpc_status_of(self->err),
                              self->why.text);
    }
    end_work(self);
}

static void on_read(struct tt_pool_work *work) {
    struct grpc_work *self = work->data;
    if (!self->inference) {
        end_load(self);
        return;
    }
    if (!self->err && !self->call->is_over)
        self->err = tt_grpc_inference_reserve(self->inference, &self->why);
    if (!self->err && !self->call->is_over)
        tt_pool_work_queue(work->loop, work, write_inputs, on_written);
    else if (self->message.bytes)
        tt_pool_work_queue(work->loop, work, drop_message, on_written);
    else
        end_inference(self);
}

static bool may_be_large(const struct tt_grpc_call *call) {
    enum tt_grpc_kind kind = call->method->kind;
    return call->all->loop &&
           (kind == TT_GRPC_INFER || kind == TT_GRPC_STREAM || kind == TT_GRPC_LOAD);
}

bool tt_grpc_call_is_large(const struct tt_grpc_call *call) {
    const struct tt_grpc_receiver *receiver = &call->receiver;
    size_t bytes = receiver->message_bytes;
    if (!may_be_large(call))
        return false;
    if (receiver->is_packed)
        return bytes > TT_GRPC_WORK_PACKED && call->coding != TT_CODING_IDENTITY;
    if (call->method->kind == TT_GRPC_LOAD)
        return bytes > TT_GRPC_WORK_LOAD;
    return bytes > TT_GRPC_WORK_WEIGHT &&
           tt_infer_message_weight(receiver->message, bytes, TT_GRPC_WORK_WEIGHT) >=
               TT_GRPC_WORK_WEIGHT;
}

size_t tt_grpc_call_unpack_here(const struct tt_grpc_call *call, size_t limit_bytes) {
    size_t here = call->method->kind == TT_GRPC_LOAD ? TT_GRPC_WORK_LOAD : TT_GRPC_WORK_WEIGHT;
    return may_be_large(call) && here < limit_bytes ? here : limit_bytes;
}

void tt_grpc_call_take_large(struct tt_grpc_call *call) {
    struct grpc_work *self = calloc(1, sizeof(*self));
    if (self) {
        tt_text_init(&self->message);
        tt_grpc_receiver_take(&call->receiver, &self->message, &self->part);
    }
    if (!self || self->message.failed) {
        free(self);
        tt_grpc_call_fail(call, TT_GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
        return;
    }
    self->call = call;
    self->work.data = self;
    tt_unpacked_bytes_init(&self->bytes, call->all->budget.share.quota, call->receiver.part.holder);
    self->coding = call->receiver.is_packed ? call->coding : TT_CODING_IDENTITY;
    self->unpacked_limit = (size_t)call->all->limits->unpacked_bytes;
    call->running_count++;
    call->is_reading = true;
    if (call->method->kind != TT_GRPC_LOAD) {
        self->inference = tt_grpc_inference_new(call);
        if (!self->inference) { /* the call has failed */
            end_work(self);
            return;
        }
        tt_grpc_inference_note_came(self->inference);
    }
    tt_pool_work_queue(call->all->loop, &self->work, read_message, on_read);
}
