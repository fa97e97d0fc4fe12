/* Pods of Kubernetes: the scale subresource of a StatefulSet for each pool, over HTTPS.
 *
 * A call reads the number of replicas with its resourceVersion, confirms that the caller is the
 * primary, and patches the number under that version. If the object has changed since the
 * read, the API server refuses with 409: so of two schedulers that both believe to be primary, the
 * one that was deposed cannot undo what the other has done.
 *
 * The token of the service account is read for each call, since it is renewed. The account needs
 * the verbs get and patch on statefulsets/scale. Implemented in kubernetes_provider.c. */
#ifndef TT_ACTUATE_KUBERNETES_PROVIDER_H
#define TT_ACTUATE_KUBERNETES_PROVIDER_H

#include "actuate/scale_provider.h"

struct tt_kubernetes_options {
    const char *name;    /* of the StatefulSet, a template: "tutti-{pool}" */
    const char *account; /* folder with token, ca.crt and namespace; NULL: the pod's */
    const char *url;     /* of the API server; NULL: as the pod's environment states */
    int64_t limit_ns;    /* for each of the two requests */
};

/* Strings are copied. Errors: INVALID: the template, or no URL; NOT_FOUND, IO: the account's
 * namespace; NO_MEMORY. The API server is not asked. */
TT_MUST_CHECK enum tt_err tt_kubernetes_provider_open(const struct tt_kubernetes_options *options,
                                                      struct tt_scale_provider *out_provider,
                                                      struct tt_error *why);

#endif
