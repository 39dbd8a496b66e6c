//! auth: who one is and what one may do.

use super::{Cluster, assert_says, squeezed};

#[tokio::test]
async fn the_administrator_may_do_everything() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.ok("auth can-i create deployments").await, "yes\n");
    assert_eq!(cluster.ok("auth can-i '*' '*' --all-namespaces").await, "yes\n");
    let list = squeezed(&cluster.ok("auth can-i --list").await);
    assert_says(&list, &["Resources Non-Resource URLs Resource Names Verbs\n", "*.* [] [] [*]\n", "[*] [] [*]\n"]);
    let me = squeezed(&cluster.ok("auth whoami").await);
    assert_says(&me, &["Username kubernetes-admin\n", "system:masters"]);
}

#[tokio::test]
async fn somebody_else_may_do_what_a_role_says() {
    let cluster = Cluster::start().await;
    let denied = cluster.run("auth can-i list pods --as=ann").await;
    assert_eq!((denied.code, denied.stdout.as_str()), (Some(1), "no\n"), "{denied}");
    let said = cluster.fails("get pods --as=ann").await;
    assert_eq!(
        said,
        "Error from server (Forbidden): pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"\n"
    );
    let role = cluster.ok("create role reader --verb=get,list,watch --resource=pods,pods/log").await;
    assert_eq!(role, "role.rbac.authorization.k8s.io/reader created\n");
    let binding = cluster.ok("create rolebinding ann-reads --role=reader --user=ann").await;
    assert_eq!(binding, "rolebinding.rbac.authorization.k8s.io/ann-reads created\n");
    assert_eq!(cluster.ok("auth can-i list pods --as=ann").await, "yes\n");
    assert_eq!(cluster.run("auth can-i delete pods --as=ann").await.stdout, "no\n");
    assert_eq!(cluster.run("auth can-i list pods -n kube-system --as=ann").await.stdout, "no\n");
    let answer = cluster.run("get pods --as=ann").await;
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), "No resources found in default namespace.\n"));
    let list = squeezed(&cluster.ok("auth can-i --list --as=ann").await);
    assert_says(&list, &["pods [] [] [get list watch]\n", "selfsubjectreviews.authentication.k8s.io [] [] [create]\n"]);
    assert!(!list.contains("*.*"), "{list}");
}

#[tokio::test]
async fn a_service_account_has_its_rights_and_its_token() {
    let cluster = Cluster::start().await;
    cluster.ok("create serviceaccount robot").await;
    let robot = "system:serviceaccount:default:robot";
    assert_eq!(cluster.run(&format!("auth can-i create configmaps --as={robot}")).await.stdout, "no\n");
    cluster.ok("create clusterrolebinding robot-edits --clusterrole=edit --serviceaccount=default:robot").await;
    assert_eq!(cluster.ok(&format!("auth can-i create configmaps --as={robot}")).await, "yes\n");
    assert_eq!(cluster.run(&format!("auth can-i create clusterroles --as={robot}")).await.stdout, "no\n");
    let token = cluster.ok("create token robot").await;
    assert_eq!(token.trim().split('.').count(), 3, "a JSON web token: {token}");
    // The administrator's certificate would be stronger than the token, so this goes without a kubeconfig.
    let server = cluster.ok("config view -o jsonpath={.clusters[0].cluster.server}").await;
    let line = format!(
        "auth whoami --kubeconfig=/dev/null --server={server} --insecure-skip-tls-verify --token={}",
        token.trim()
    );
    let me = squeezed(&cluster.ok(&line).await);
    assert_says(&me, &[&format!("Username {robot}\n"), "system:serviceaccounts:default"]);
    let line = format!("get pods --kubeconfig=/dev/null --server={server} --insecure-skip-tls-verify --token=nonsense");
    let said = cluster.fails(&line).await;
    assert_says(&said, &["error: You must be logged in to the server (Unauthorized)"]);
}

#[tokio::test]
async fn nobody_gives_away_more_than_they_have() {
    let cluster = Cluster::start().await;
    cluster.ok("create role keeper --verb=create --resource=roles.rbac.authorization.k8s.io").await;
    cluster.ok("create rolebinding ann-keeps --role=keeper --user=ann").await;
    let said = cluster.fails("create role thief --verb=get --resource=secrets --as=ann").await;
    assert_says(&said, &["is forbidden: user \"ann\"", "is attempting to grant RBAC permissions not currently held"]);
}
