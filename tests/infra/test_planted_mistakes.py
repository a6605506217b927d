"""Each mistake that is planted into the templates is found, and said where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.planting import Mistake, check_found, found

MAIN, APP, STORAGE, BUS = "main.bicep", "modules/app.bicep", "modules/storage.bicep", "modules/servicebus.bicep"
POOL = "workers/pool.bicep"
ROLES, NETWORK, VAULT = "modules/roles.bicep", "modules/network.bicep", "modules/keyvault.bicep"
ALERTS, ENDPOINTS = "modules/alerts.bicep", "modules/endpoints.bicep"


UNUSED = "resource unused 'Microsoft.Insights/components@2020-02-02' existing = {\n  name: 'x'\n}\n\n"


MISTAKES = [
    # Names
    Mistake("unknown identifier", MAIN, "tags: allTags\n    sku: scale", "tags: alltags\n    sku: scale", "no alltags"),
    Mistake("unknown function", MAIN, "toLower(uniqueString", "lower(uniqueString", "no function lower"),
    Mistake(
        "unknown decorator", MAIN, "@secure()\nparam rootAccess", "@secret()\nparam rootAccess", "decorator secret"
    ),
    Mistake("unknown module parameter", MAIN, "corsOrigins: art", "corsOrigin: art", "no parameter corsOrigin"),
    Mistake("missing module parameter", MAIN, "    capacity: scale.serviceBusCapacity\n", "", "parameter capacity"),
    Mistake("unknown module output", MAIN, "keyVault.outputs.uri", "keyVault.outputs.url", "no output url"),
    Mistake("unknown module file", MAIN, "'modules/network.bicep'", "'modules/net.bicep'", "no file modules/net.bicep"),
    Mistake(
        "unused parameter", STORAGE, "param location string", "param location string\nparam more string = ''", "more"
    ),
    Mistake("unused variable", APP, "var hostSettings", "var more = 1\nvar hostSettings", "more is not used"),
    Mistake(
        "unused existing resource",
        "modules/storageroles.bicep",
        "resource blobs '",
        f"{UNUSED}resource blobs '",
        "unused is not used",
    ),
    Mistake("unknown key of a profile", MAIN, "scale.storageSku", "scale.storageSKUs", "there is no storageSKUs"),
    Mistake(
        "unknown member of a document", ROLES, "ids.keyVaultSecretsUser", "ids.keyVaultReader", "no keyVaultReader"
    ),
    Mistake("parameter that the template lacks", "main.parameters.json", '"rootUrl"', '"rootURL"', "rootURL"),
    Mistake("syntax", APP, "kind: 'functionapp,linux'", "kind 'functionapp,linux'", "cannot be parsed"),
    # Types
    Mistake("unknown property", STORAGE, "accessTier: 'Hot'", "tier: 'Hot'", "properties.tier is unknown"),
    Mistake("misspelt property", BUS, "disableLocalAuth", "disableLocalAuths", "is disableLocalAuth meant"),
    Mistake("casing of a property", APP, "httpsOnly", "httpsonly", "is written httpsOnly"),
    Mistake(
        "misplaced property", APP, "  kind: 'functionapp,linux'", "  httpsOnly: true\n  kind: 'f'", "into properties"
    ),
    Mistake("missing required property", STORAGE, "kind: 'StorageV2'", "", "needs kind"),
    Mistake("read-only property", STORAGE, "accessTier: 'Hot'", "provisioningState: 'x'", "is read-only"),
    Mistake("wrong type: text for a boolean", APP, "httpsOnly: true", "httpsOnly: 'true'", "has to be true or false"),
    Mistake("wrong type: number for a text", VAULT, "family: 'A'", "family: 1", "properties.sku.family"),
    Mistake("wrong type: text for a list", NETWORK, "[\n        addressPrefix\n      ]", "addressPrefix", "a list"),
    Mistake("wrong type: object for a text", APP, "serverFarmId: plan.id", "serverFarmId: {}", "has to be a string"),
    Mistake("enum", STORAGE, "'TLS1_2'", "'TLS12'", "is 'TLS1_2' meant"),
    Mistake("casing of an enum", VAULT, "'standard'", "'Standard'", "has to be one of"),
    Mistake("length", "modules/alerts.bicep", "'tc-queue'", "'taskcluster-queue'", "characters, not 17"),
    Mistake("range", STORAGE, "      days: 7", "      days: 700", "1 to 365"),
    Mistake("API version", APP, "sites@2024-11-01' =", "sites@2024-11-31' =", "no API version 2024-11-31"),
    Mistake("resource type", STORAGE, "queueServices/queues@", "queueService/queues@", "no such resource type"),
    Mistake(
        "parent of another type",
        STORAGE,
        "  parent: tableService\n",
        "  parent: queueService\n",
        "cannot be the parent",
    ),
    Mistake("child without a parent", STORAGE, "  parent: tableService\n", "", "it needs a parent"),
    Mistake(
        "scope of no extension",
        STORAGE,
        "  parent: tableService\n",
        "  parent: tableService\n  scope: account\n",
        "scope",
    ),
    Mistake(
        "module without a scope", MAIN, "  scope: group\n  name: 'monitoring'", "  name: 'monitoring'", "resource group"
    ),
    # Reading
    Mistake(
        "property that does not exist", VAULT, "vault.properties.vaultUri", "vault.properties.vaultUrl", "vaultUrl"
    ),
    Mistake("output of another type", VAULT, "output id string", "output id int", "output id has to be int"),
    Mistake("argument of another type", MAIN, "capacity: scale.serviceBusCapacity", "capacity: 'one'", "has to be int"),
    Mistake("value that is not allowed", MAIN, "sku: scale.serviceBusSku", "sku: 'Basic'", "not 'Basic'"),
    Mistake(
        "name from what is deployed later", APP, "  name: name\n", "  name: '${plan.properties.status}'\n", "begins"
    ),
    Mistake("value that differs each time", BUS, "capacity: capacity", "capacity: length(utcNow())", "another value"),
    Mistake("cycle", APP, "  name: planName\n", "  name: app.name\n", "depends on itself"),
    # Meaning
    Mistake(
        "module name twice", MAIN, "name: 'app-endpoint'", "name: 'endpoints'", "2 modules have the name endpoints"
    ),
    Mistake(
        "existing that nothing deploys", ROLES, "name: workbookName", "name: 'workbook'", "nothing deploys workbook"
    ),
    Mistake(
        "app before its roles",
        MAIN,
        "    roles\n    storageRoles\n    operatorRole\n",
        "    storageRoles\n    operatorRole\n",
        "does not wait for the role",
    ),
    Mistake("subnet that does not exist", NETWORK, "/subnets/app'", "/subnets/apps'", "no subnet"),
    Mistake("name that is too long", "abbreviations.json", '"kv-"', '"keyvault-of-"', "is no name for"),
    # Flex Consumption
    Mistake("site property", APP, "http20Enabled: true", "ftpsState: 'Disabled'", "refuses siteConfig.ftpsState"),
    Mistake(
        "app setting", APP, "  AzureWebJobsDisableHomepage", "  WEBSITE_TIME_ZONE", "refuses the setting WEBSITE_TIME"
    ),
    Mistake("host setting", APP, "__queueServiceUri", "__queueServiceUrl", "no setting of a connection"),
    Mistake("Python version", APP, "version: '3.13'", "version: '3.9'", "no runtime"),
    Mistake("memory", "profiles/large.json", '"instanceMemoryMB": 2048', '"instanceMemoryMB": 1024', "1024 MB"),
    Mistake("instances", "profiles/large.json", '"maximumInstanceCount": 200', '"maximumInstanceCount": 20', "not 20"),
    Mistake("quota", "profiles/large.json", '"maximumInstanceCount": 200', '"maximumInstanceCount": 900', "quota"),
    Mistake("ready function", "profiles/large.json", "function:claim-expired", "function:claims", "function:claims"),
    Mistake("delegation", NETWORK, "Microsoft.App/environments", "Microsoft.Web/serverFarms", "has to be delegated"),
    Mistake(
        "size of the subnet", NETWORK, "cidrSubnet(addressPrefix, 25, 0)", "cidrSubnet(addressPrefix, 28, 0)", "/27"
    ),
    Mistake("container of the packages", APP, "storageUri.blob}deployments", "storageUri.blob}zips", "zips"),
    # Workers
    Mistake("scaler", POOL, "type: 'metrics-api'", "type: 'azure-queue'", "cannot read the load"),
    Mistake("number that starves", POOL, "valueLocation: sizes", "valueLocation: 'unresolved' // sizes", "no unreso"),
    Mistake("number as metadata", POOL, "string(sizes.parallelism)", "1", "has to be a text"),
    Mistake("word of the rule", POOL, "keyParamName: 'bewit'", "keyParam: 'bewit'", "metadata"),
    Mistake("header", POOL, "method: 'query'", "method: 'header'", "method has to be query"),
    Mistake("another parameter", POOL, "keyParamName: 'bewit'", "keyParamName: 'key'", "keyParamName has to be bewit"),
    Mistake("query in the URL", POOL, "}/load'", "}/load?a=1'", "breaks its signature"),
    Mistake("counts in place of load", POOL, "}/load'", "}/counts'", "not the load"),
    Mistake("slash", POOL, "replace(taskQueueId, '/', '%2F')", "taskQueueId", "needs %2F"),
    Mistake("one task queue for all", POOL, "value: taskQueueId", "value: 'my-team/other'", "not the load of what"),
    Mistake("same task queue twice", "main.bicep", "trim(taskQueueId))", "toLower('a/b'))", "is deployed 2 times"),
    Mistake("retries", POOL, "replicaRetryLimit: 0", "replicaRetryLimit: 1", "nobody counted"),
    Mistake("manual", POOL, "triggerType: 'Event'", "triggerType: 'Manual'", "started by load"),
    Mistake("completion", POOL, "replicaCompletionCount: sizes.parallelism", "replicaCompletionCount: 2", "parallelis"),
    Mistake("time limit", "workers/defaults.json", '"replicaTimeout": 7200', '"replicaTimeout": 60', "end a worker"),
    Mistake("fewest", "workers/defaults.json", '"minExecutions": 0', '"minExecutions": 30', "more than maxExecutions"),
    Mistake("unknown secret", POOL, "secretRef: 'access-token'", "secretRef: 'token'", "no secret token"),
    Mistake("secret in the template", POOL, "keyVaultUrl: '${vault", "value: '${vault", "belongs into the vault"),
    Mistake(
        "secret of nobody",
        POOL,
        "          identity: identity.id\n        }\n      ]\n      event",
        "        }\n      ]\n      event",
        "not have",
    ),
    Mistake("token as a value", POOL, "secretRef: 'access-token'", "value: 'x'", "has to come from a secret"),
    Mistake("identity for tasks", POOL, "lifecycle: 'None'", "lifecycle: 'All'", "could use the job's identity"),
    Mistake("job before its roles", POOL, "    readsBewit\n", "", "does not wait for the role"),
    Mistake("secret that no one makes", POOL, "-bewit'", "-Bewit'", "nothing deploys"),
    Mistake("CPU", "workers/defaults.json", '"cpu": "1"', '"cpu": "0.3"', "no containers with 0.3 vCPU"),
    Mistake("memory of a worker", "workers/defaults.json", '"memory": "2Gi"', '"memory": "3Gi"', "2Gi of memory"),
    Mistake("misspelt property of a job", POOL, "replicaTimeout: sizes", "replicaTimeOut: sizes", "replicaTimeout"),
    Mistake("name of a job", "abbreviations.json", '"worker": "worker-"', '"worker": "Worker-"', "is no name for"),
    Mistake("target", POOL, "string(sizes.parallelism)", "'2'", "has to be what an execution works on"),
    Mistake("subnet of workers", NETWORK, "/subnets/workers'", "/subnets/worker'", "nothing that is deployed"),
    Mistake("image", "main.parameters.json", "QUEUE_WORKER_IMAGE=", "QUEUE_WORKER_IMAGES=", "minLength"),
    # Limits that the types do not have
    Mistake("property given twice", APP, "httpsOnly: true", "httpsOnly: true\n    httpsOnly: true", "given twice"),
    Mistake("id of a role", "roles.json", '"storageBlobDelegator": "', '"storageBlobDelegator": "1', "no id of a role"),
    Mistake("overlap", NETWORK, "cidrSubnet(addressPrefix, 27, 4)", "cidrSubnet(addressPrefix, 27, 2)", "overlap"),
    Mistake("outside", NETWORK, "cidrSubnet(addressPrefix, 26, 3)", "'10.61.0.0/26'", "not within the network"),
    Mistake("duration", "profiles/large.json", '"PT1H"', '"1H"', "is no duration"),
    Mistake("length of a duration", "profiles/large.json", '"PT1H"', '"P8D"', "PT20S to P7D"),
    Mistake("frequency of a rule", ALERTS, "'PT5M'", "'PT3M'", "not PT3M"),
    Mistake("window of a rule", ALERTS, "window: 'PT15M'", "window: 'PT25M'", "not PT25M"),
    Mistake(
        "rule that leaves time out", ALERTS, "evaluationFrequency: 'PT5M'", "evaluationFrequency: 'PT2H'", "leaves"
    ),
    Mistake("severity", ALERTS, "severity: 1", "severity: 9", "severity is 0 to 4"),
    Mistake("table of logs", ALERTS, "'AppRequests | where", "'AppRequest | where", "no table"),
    Mistake("periods", ALERTS, "minFailingPeriodsToAlert: 1", "minFailingPeriodsToAlert: 2", "more periods"),
    Mistake("days of the vault", VAULT, "RetentionInDays: 90", "RetentionInDays: 5", "7 to 90"),
    Mistake("messaging units", "profiles/large.json", '"serviceBusCapacity": 1', '"serviceBusCapacity": 3', "units"),
    Mistake("days of logs", "profiles/large.json", '"logRetentionDays": 90', '"logRetentionDays": 3', "30 to 730"),
    Mistake("cap of logs", "profiles/large.json", '"logDailyCapGb": 20', '"logDailyCapGb": 0', "keeps no logs"),
    Mistake("prefix of a rule", STORAGE, "'artifacts/'", "'artefacts/'", "in no container"),
    Mistake("zones of storage", "profiles/large.json", '"Standard_ZRS"', '"Standard_LRS"', "loss of a zone"),
    Mistake("share of traces", "profiles/large.json", '"traceRatio": "0.01"', '"traceRatio": "1.5"', "0 to 1"),
    Mistake("messages at a time", "profiles/large.json", '"queueBatchSize": 32', '"queueBatchSize": 64', "1 to 32"),
    Mistake(
        "event", "profiles/large.json", '"EVENT_SIZE_LIMIT": "9', '"EVENT_SIZE_LIMIT": "99', "more than the 1048576"
    ),
    Mistake("calls", "profiles/large.json", '"httpConcurrency": 150', '"httpConcurrency": 1500', "1 to 1000"),
    Mistake(
        "ready instances", "profiles/large.json", '"instanceCount": 9', '"instanceCount": 900', "of 200 at the most"
    ),
    Mistake("side of a rule", ALERTS, "operator: 'GreaterThan'", "operator: 'LessThan'", "so GreaterThan"),
    Mistake("metric", ALERTS, "'DeadletteredMessages'", "'DeadLetterMessages'", "has no metric DeadLetterMessages"),
    Mistake("aggregation of a metric", ALERTS, "timeAggregation: 'Average'", "timeAggregation: 'Total'", "not Total"),
    Mistake(
        "side of a metric",
        ALERTS,
        "'LessThan'\n          threshold: 99",
        "'GreaterThan'\n          threshold: 99",
        "is Less",
    ),
    # Secrets
    Mistake(
        "secret as an output", VAULT, "output id string = vault.id", "output id string = rootAccessToken", "record"
    ),
    Mistake(
        "secret in a variable",
        VAULT,
        "output id string = vault.id",
        "var all = '${vault.id}${accessTokenKeys}'\noutput id string = all",
        "the output id has a secret",
    ),
    Mistake(
        "secret in the file",
        MAIN,
        "param rootAccessToken string = ''",
        "param rootAccessToken string = 'a'",
        "value in",
    ),
    Mistake("secret passed on", VAULT, "@secure()\nparam messageSigning", "param messageSigning", "passed on"),
    Mistake("secret by its name", VAULT, "@secure()\nparam accessTokenKeys", "param accessTokenKeys", "not @secure()"),
    # Conventions
    Mistake("zone", MAIN, "privatelink.blob.", "privatelink.blobs.", "looked up in privatelink.blob.core"),
    Mistake("suffix", MAIN, "privatelink.servicebus.windows.net", "privatelink.servicebus.window.net", "looked up"),
    Mistake("sub-resource", MAIN, "name: 'blob'", "name: 'blobs'", "no sub-resource"),
    Mistake("location of a zone", ENDPOINTS, "location: 'global'", "location: location", "is 'global'"),
    Mistake("tag of the group", MAIN, "'azd-env-name'", "'azd-environment'", "by the tag azd-env-name"),
    Mistake("tag of the app", APP, "azd-service-name", "azd-service", "by the tag azd-service-name"),
    Mistake("plain HTTP", STORAGE, "supportsHttpsTrafficOnly: true", "supportsHttpsTrafficOnly: false", "plain HTTP"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_is_found(mistake: Mistake, copy_of_infra: Path) -> None:
    check_found(mistake, copy_of_infra)


def test_without_a_mistake_nothing_is_found(copy_of_infra: Path) -> None:
    assert list(found(copy_of_infra)) == []
