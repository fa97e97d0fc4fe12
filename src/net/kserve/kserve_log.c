#include "net/kserve/kserve_log.h"

#include "base/log/log.h"
#include "serve/served_model.h"

void tt_kserve_log_end(struct tt_log *log, const struct tt_kserve_request *request,
                       const struct tt_served_model *model, enum tt_err err, const char *why) {
    bool ours = err == TT_ERR_INTERNAL || err == TT_ERR_NO_MEMORY || err == TT_ERR_IO;
    if (!ours && !tt_log_wants_verbose(log, 1))
        return;
    const char *name = tt_served_model_name(model);
    char text[128];
    const char *id = tt_kserve_request_id(request, text, sizeof(text));
    if (ours)
        tt_log_limited(log, TT_LOG_ERROR, id, "model %s: %s", name, why);
    else
        tt_log_verbose(log, 1, id, "model %s: %s", name, err ? why : "answered");
}
