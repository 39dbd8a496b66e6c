//! The serviceaccounttoken loop: Secrets that ask for a service account's token get one, and go with the account.
//!
//! Watches Secrets of type `kubernetes.io/service-account-token` and ServiceAccounts. Keys are Secrets.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Client;
use pintle_runtime::{
    Action, Attempt, Context, Controller, Error, Executor, Informer, Key, Objects, Reconciler, Selection,
};

/// What a token speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretToken {
    pub namespace: String,
    pub secret: String,
    pub account: String,
    pub account_uid: String,
}

/// Signs tokens that are good as long as their Secret holds them; the error says why it cannot.
pub type TokenSigner = Arc<dyn Fn(&SecretToken) -> Result<String, String> + Send + Sync>;

/// Index of Secrets: the account.
fn account(secret: &Secret) -> Vec<String> {
    plan::account_of(secret).map(|key| key.to_string()).into_iter().collect()
}

/// Runs until the context's shutdown fires. Without a signer Secrets stay as they are.
pub(crate) async fn run(context: Context, signer: Option<TokenSigner>, root_ca: Option<String>) {
    let Some(signer) = signer else { return context.shutdown.fired().await };
    let secrets: Informer<Secret> = context.informers.select(Selection::fields(plan::SELECTED));
    let accounts = context.informers.of::<ServiceAccount>();
    secrets.index(account);
    let (client, executor) = (context.client.clone(), Executor::new(&context, "tokens-controller"));
    let of_account = secrets.clone();
    Controller::new("serviceaccount-token", &context)
        .watch(&secrets, |change| vec![change.key()])
        .watch(&accounts, move |change| match change.old() {
            // Nothing in an account changes its tokens.
            Some(_) => Vec::new(),
            None => {
                let secrets = of_account.by(account, &change.key().to_string());
                secrets.iter().map(|secret| Key::of(secret.as_ref())).collect()
            }
        })
        .run(Tokens { client, executor, signer, root_ca, secrets, accounts })
        .await;
}

struct Tokens {
    client: Client,
    executor: Executor,
    signer: TokenSigner,
    root_ca: Option<String>,
    secrets: Informer<Secret>,
    accounts: Informer<ServiceAccount>,
}

impl Reconciler for Tokens {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(secret) = self.secrets.get(key) else { return Ok(Action::done()) };
        let Some(owner) = plan::account_of(&secret) else { return Ok(Action::done()) };
        let mut account = self.accounts.get(&owner).map(|account| account.as_ref().clone());
        if !plan::belongs(&secret, account.as_ref()) {
            // An account that is made together with its Secret may not be in the cache yet.
            let accounts: Objects<ServiceAccount> = Objects::namespaced(self.client.clone(), owner.namespace());
            account = accounts.get_opt(owner.name()).await?;
        }
        let sign = |token: &SecretToken| (self.signer)(token);
        let plan = plan::plan(&secret, account.as_ref(), self.root_ca.as_deref(), sign).map_err(Error::Outside)?;
        Ok(self.executor.execute(secret.as_ref(), plan).await?)
    }
}
