#include "device/async_upload.h"

#include "base/instant.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

struct tt_async_upload {
    struct tt_async_device *device;
    struct tt_async_stream *stream;
    struct tt_async_event *event;
    void *buffer; /* pinned */
};

void tt_async_upload_close(struct tt_async_upload *take_upload) {
    if (!take_upload)
        return;
    if (take_upload->stream)
        tt_async_stream_close(take_upload->stream);
    if (take_upload->event)
        tt_async_event_close(take_upload->event);
    if (take_upload->buffer)
        tt_async_unpin(take_upload->device, take_upload->buffer);
    free(take_upload);
}

enum tt_err tt_async_upload_open(struct tt_async_device *device,
                                 struct tt_async_upload **out_upload, struct tt_error *why) {
    struct tt_async_upload *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for copies to a device");
    self->device = device;
    enum tt_err err = tt_async_stream_open(device, &self->stream, why);
    if (!err)
        err = tt_async_event_open(device, &self->event, why);
    if (!err)
        err = tt_async_pin(device, BUFFER_BYTES, &self->buffer, why);
    if (err) {
        tt_async_upload_close(self);
        return err;
    }
    *out_upload = self;
    return TT_OK;
}

static enum tt_err copy(struct tt_async_upload *self, uint64_t to, const char *from, size_t bytes,
                        struct tt_error *why) {
    tt_async_host_access(self->device, self->buffer, bytes, true);
    memcpy(self->buffer, from, bytes);
    enum tt_err err = tt_async_copy_in(self->stream, to, self->buffer, bytes, why);
    if (!err)
        err = tt_async_record(self->stream, self->event, why);
    return err ? err : tt_async_event_wait(self->event, TT_NEVER, why);
}

enum tt_err tt_async_upload_put(struct tt_async_upload *self, const void *bytes, size_t count,
                                uint64_t *out_address, struct tt_error *why) {
    uint64_t address = 0;
    enum tt_err err = tt_async_reserve(self->device, count, &address, why);
    if (err)
        return err;
    for (size_t at = 0; !err && at < count; at += BUFFER_BYTES) {
        size_t part = count - at < BUFFER_BYTES ? count - at : BUFFER_BYTES;
        err = copy(self, address + at, (const char *)bytes + at, part, why);
    }
    if (err) {
        tt_async_release(self->device, address, count);
        return err;
    }
    *out_address = address;
    return TT_OK;
}
