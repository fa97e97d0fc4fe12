#include "cmd/serve_scale.h"

#include "actuate/command_provider.h"
#include "actuate/emulated_provider.h"
#include "actuate/kubernetes_provider.h"

#include <stdlib.h>
#include <string.h>

/* "POOL=MIN:MAX"; *out_name_bytes: of POOL. */
static bool read_limit(const char *text, size_t *out_name_bytes, struct tt_scaling_limit *out) {
    const char *equals = strrchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
    char least[16];
    int64_t low, high;
    if (!colon || equals == text || colon - equals - 1 >= (int)sizeof(least))
        return false;
    snprintf(least, sizeof(least), "%.*s", (int)(colon - equals - 1), equals + 1);
    if (!tt_flags_integer(least, 1, INT32_MAX, &low) ||
        !tt_flags_integer(colon + 1, low, INT32_MAX, &high))
        return false;
    *out_name_bytes = (size_t)(equals - text);
    *out = (struct tt_scaling_limit){.least = (int32_t)low, .most = (int32_t)high};
    return true;
}

enum tt_err tt_serve_scale_check(const struct tt_serve_scale_flags *flags, bool is_scheduler,
                                 struct tt_error *why) {
    int providers = !!flags->kubernetes + !!flags->command + !!flags->emulated;
    if (providers > 1)
        return tt_fail(
            TT_ERR_INVALID, why,
            "--scale-kubernetes, --scale-command and --scale-emulated exclude each other");
    if (providers > 0 && !is_scheduler)
        return tt_fail(TT_ERR_INVALID, why, "the flags --scale-... need --role scheduler");
    for (int32_t i = 0; i < flags->limits.count; i++) {
        size_t ignored;
        struct tt_scaling_limit limit;
        if (!read_limit(flags->limits.texts[i], &ignored, &limit))
            return tt_fail(TT_ERR_INVALID, why,
                           "--scale-limits '%.100s' is not POOL=MIN:MAX, with 1 <= MIN <= MAX",
                           flags->limits.texts[i]);
    }
    return TT_OK;
}

static enum tt_err copy_limits(struct tt_serve_scale *self,
                               const struct tt_serve_scale_flags *flags, struct tt_error *why) {
    size_t bytes = 1;
    for (int32_t i = 0; i < flags->limits.count; i++)
        bytes += strlen(flags->limits.texts[i]) + 1;
    char *at = self->names = calloc(1, bytes);
    if (!at)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; i < flags->limits.count; i++) {
        size_t length = 0;
        bool is_good = read_limit(flags->limits.texts[i], &length, &self->limits[i]);
        tt_assert(is_good); /* was checked */
        memcpy(at, flags->limits.texts[i], length);
        self->limits[i].pool = at;
        at += length + 1;
    }
    return TT_OK;
}

/* ---- emulated backends ---- */

struct words {
    const char **words;
    int32_t count;
};

static void add(struct words *self, const char *flag, const char *value) {
    if (!value)
        return;
    self->words[self->count++] = flag;
    self->words[self->count++] = value;
}

static enum tt_err open_emulated(struct tt_serve_scale *self, const char *folder,
                                 const struct tt_serve_scale_context *context,
                                 struct tt_error *why) {
    enum { OTHERS = 40 };
    struct words out = {calloc((size_t)context->repository_count * 2 + OTHERS, sizeof(char *)), 0};
    self->args = out.words;
    if (!out.words)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    out.words[out.count++] = "tutti";
    out.words[out.count++] = "serve";
    out.words[out.count++] = "--emulated";
    add(&out, "--role", "backend");
    add(&out, "--http-port", "0");
    add(&out, "--grpc-port", "0");
    add(&out, "--cluster", context->cluster);
    add(&out, "--cluster-key", context->key);
    add(&out, "--cluster-tls-cert", context->tls->certificate);
    add(&out, "--cluster-tls-key", context->tls->key);
    add(&out, "--cluster-tls-ca", context->tls->ca);
    add(&out, "--etcd-ca", context->tls->etcd.ca);
    add(&out, "--etcd-cert", context->tls->etcd.certificate);
    add(&out, "--etcd-key", context->tls->etcd.key);
    add(&out, "--model-control-mode", context->is_explicit ? "explicit" : NULL);
    for (int32_t i = 0; i < context->repository_count; i++)
        add(&out, "--model-repository", context->repositories[i]);
    const struct tt_emulated_options options = {
        .folder = folder, .args = out.words, .program = "/proc/self/exe"};
    return tt_emulated_provider_open(&options, &self->options.provider, why);
}

enum tt_err tt_serve_scale_open(struct tt_serve_scale *self,
                                const struct tt_serve_scale_flags *flags,
                                const struct tt_serve_scale_context *context,
                                struct tt_error *why) {
    *self = (struct tt_serve_scale){.options = {.limits = self->limits,
                                                .limit_count = flags->limits.count,
                                                .hold_ns = flags->hold_ns,
                                                .deliver_ns = flags->deliver_ns,
                                                .drain_ns = flags->drain_ns,
                                                .retry_ns = flags->retry_ns,
                                                .start_up_ns = flags->start_up_ns}};
    if (!flags->kubernetes && !flags->command && !flags->emulated)
        return TT_OK;
    enum tt_err err = copy_limits(self, flags, why);
    const struct tt_kubernetes_options kubernetes = {.name = flags->kubernetes,
                                                     .account = flags->kubernetes_account,
                                                     .url = flags->kubernetes_url,
                                                     .limit_ns = flags->call_ns};
    if (!err && flags->kubernetes)
        err = tt_kubernetes_provider_open(&kubernetes, &self->options.provider, why);
    else if (!err && flags->command)
        err =
            tt_command_provider_open(flags->command, flags->call_ns, &self->options.provider, why);
    else if (!err)
        err = open_emulated(self, flags->emulated, context, why);
    self->has_provider = !err;
    return err;
}

void tt_serve_scale_close(struct tt_serve_scale *self) {
    if (self->has_provider)
        self->options.provider.close(self->options.provider.self);
    free(self->names);
    free(self->args);
    self->has_provider = false;
    self->names = NULL;
    self->args = NULL;
}
