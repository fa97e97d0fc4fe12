/* The flags of TLS between nodes and to etcd, for all verbs that talk to nodes: rows of a table of
 * flags (cmd/flags.h). `member`: a struct tt_cluster_tls_files in the verb's flags. */
#ifndef TT_CMD_CLUSTER_TLS_FLAGS_H
#define TT_CMD_CLUSTER_TLS_FLAGS_H

#include "cmd/flags.h"
#include "fleet/cluster_tls.h"

/* The member is a designator, which takes no parentheses. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define TT_CLUSTER_TLS_FLAGS(member)                                                               \
    TT_TEXT("cluster-tls-cert", "FILE", member.certificate, NULL,                                  \
            "TLS between nodes: this one's certificate in PEM, for the host of its line in the "   \
            "description"),                                                                        \
        TT_TEXT("cluster-tls-key", "FILE", member.key, NULL, "its private key in PEM"),            \
        TT_TEXT("cluster-tls-ca", "FILE", member.ca, NULL,                                         \
                "certificates in PEM that sign those of all nodes"),                               \
        TT_TEXT("etcd-ca", "FILE", member.etcd.ca, NULL,                                           \
                "etcds://: certificates in PEM that sign those of etcd (default: the system's)"),  \
        TT_TEXT("etcd-cert", "FILE", member.etcd.certificate, NULL,                                \
                "etcds://: this process's certificate in PEM, where etcd asks for one"),           \
        TT_TEXT("etcd-key", "FILE", member.etcd.key, NULL, "its private key in PEM")
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
